"""A run as its folder has it, whether it is over, goes on or was killed.

The lines of the accounts are those of the store or, where that was kept in memory, of `metrics.jsonl`. A run that has
no `summary.json` is summed up from its lines, by the same accounts that write one at its end.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coordinator.commands import COMMANDS
from coordinator.metrics.ledger import Ledger
from coordinator.metrics.links import Links
from coordinator.metrics.series import Series, gather
from coordinator.metrics.summary import PEAKS
from coordinator.metrics.tally import RoundLine, read_line
from coordinator.report.prototype_map import PrototypeSet, of_file, of_frames
from coordinator.store.run_folder import RunFolder
from coordinator.store.stored import (
    read_devices,
    read_facts,
    read_metric_lines,
    read_position,
    read_rounds,
    reading,
)
from coordinator.store.stored_facts import StoredFacts
from coordinator.whereabouts import State, whereabouts
from models import methods
from models.settings import Tables
from models.spec import ConfigError
from wire.encoding import decode
from wire.messages import NETWORK, Ready

LINES_PER_READ = 500


@dataclass(frozen=True)
class Run:
    """What a report tells of one run.

    Attributes:
        folder: where it is.
        state: whether it goes on, see `whereabouts`.
        outcome: how it ended; of one that has not, the state.
        config: its settings as tables.
        summary: the content of `summary.json`, or what would stand there now.
        series: its figures by round, client and exchange.
        classes: the label map.
        samples: by client how many samples of each class it trains and tests with.
        global_prototypes: the latest ones, if its method has any.
        local_prototypes: those that clients have sent in the open exchange, which alone are stored.
        closed_at_s: by round when it was closed, in seconds since the epoch, where that is stored.
    """

    folder: RunFolder
    state: State
    outcome: str
    config: Tables
    summary: Mapping[str, Any]
    series: Series
    classes: Sequence[str] = ()
    samples: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    global_prototypes: PrototypeSet | None = None
    local_prototypes: Mapping[str, PrototypeSet] = field(default_factory=dict)
    closed_at_s: Mapping[int, float] = field(default_factory=dict)


class Accounts(NamedTuple):
    """The lines of a run: those of its rounds, and a way to read all others, in order."""

    rounds: Sequence[str]
    others: Callable[[], Iterator[str]]
    facts: StoredFacts
    announced: Mapping[str, Ready]
    devices: Mapping[str, Mapping[str, Any]]
    state: PrototypeSet | None
    local: Mapping[str, PrototypeSet]
    closed_at_s: Mapping[int, float]


def read_run(path: Path) -> Run:
    """Read the run in this folder.

    Raises:
        ConfigError: there is none, it has not begun, or a part of it cannot be read.
    """
    folder = RunFolder.open(path)
    config, found = folder.read_tables(), whereabouts(folder)
    try:
        histogram = _read_histogram(folder)
        with _accounts(folder, config) as accounts:
            rounds = [line for line in map(read_line, accounts.rounds) if isinstance(line, RoundLine)]
            series = gather(rounds, map(read_line, accounts.others()))
            summary = folder.read_summary() or _summary_so_far(folder, accounts, histogram.get("classes", []))
            if summary.get("outcome") not in (None, found.outcome):  # of an earlier time, or its service knows better
                summary = {**summary, "outcome": found.outcome or None, "reason": found.reason}
    except (msgspec.MsgspecError, json.JSONDecodeError) as error:
        raise ConfigError(f"{path}: expected the accounts of a run: {error}") from None
    return Run(
        folder=folder,
        state=found.state,
        outcome=found.outcome or found.state,
        config=config,
        summary=summary,
        series=series,
        classes=histogram.get("classes", []),
        samples=histogram.get("clients", {}),
        global_prototypes=of_file(folder.global_path) or accounts.state,
        local_prototypes=accounts.local,
        closed_at_s=accounts.closed_at_s,
    )


def _read_histogram(folder: RunFolder) -> dict[str, Any]:
    """Return the label map and the samples of each client, nothing if no client has announced itself."""
    if not folder.histogram_path.exists():
        return {}
    content: dict[str, Any] = json.loads(folder.histogram_path.read_text(encoding="utf-8"))
    return content


@contextmanager
def _accounts(folder: RunFolder, config: Tables) -> Iterator[Accounts]:
    if config["run"].get("store") == "memory":
        yield _written_accounts(folder.metrics_path)
        return
    with reading(folder.store_path) as connection:
        yield _stored_accounts(connection)


def _written_accounts(path: Path) -> Accounts:
    """Return the lines of a file whose last one may not be whole."""

    def lines() -> Iterator[str]:
        if path.exists():
            with path.open(encoding="utf-8") as file:
                yield from (line for line in file if line.endswith("\n"))

    def is_round(line: str) -> bool:
        return line.startswith('{"kind":"round"')

    def others() -> Iterator[str]:
        return (line for line in lines() if not is_round(line))

    rounds = [line for line in lines() if is_round(line)]
    return Accounts(rounds, others, StoredFacts(), {}, {}, None, {}, {})


def _stored_accounts(connection: sqlite3.Connection) -> Accounts:
    def lines() -> Iterator[str]:
        after = 0
        while page := read_metric_lines(connection, after, LINES_PER_READ):
            yield from (line for _, line in page)
            after = page[-1][0]

    position, records = read_position(connection), read_rounds(connection)
    updates = position.open_exchange.updates if position.open_exchange else []
    found = {update.client: of_frames(update.header, update.buffer, NETWORK) for update in updates}
    state = position.latest_state
    return Accounts(
        rounds=[record.line for record in records],
        others=lines,
        facts=read_facts(connection),
        announced=dict(_announced(connection)),
        devices=read_devices(connection),
        state=of_frames(state.header, state.buffer, COMMANDS) if state else None,
        local={client: prototypes for client, prototypes in found.items() if prototypes},
        closed_at_s={record.round: record.closed_at_s for record in records},
    )


def _announced(connection: sqlite3.Connection) -> Iterator[tuple[str, Ready]]:
    for client, header in connection.execute("SELECT client, ready FROM clients ORDER BY client"):
        message, _ = decode([header])
        if isinstance(message, Ready):
            yield client, message


def _summary_so_far(folder: RunFolder, accounts: Accounts, classes: Sequence[str]) -> dict[str, Any]:
    """Return what `summary.json` would say if the run ended now; it knows no process's memory."""
    if accounts.facts.modules not in ("", *sys.path):
        sys.path.append(accounts.facts.modules)
    config = folder.read_config()
    spec = config.unchecked_spec(folder.run_id, classes)
    ledger = Ledger(spec, methods.find(spec.method), Links(accounts.facts.links, lambda route: None))
    if accounts.facts.start_classes is not None:
        ledger.start_from(accounts.facts.start_classes, accounts.facts.init_from)
    for client, ready in accounts.announced.items():
        ledger.announce(client, ready)
    for client, profile in accounts.devices.items():
        ledger.device(client, profile)
    ledger.replay(accounts.others())
    ledger.replay(accounts.rounds)
    unknown = {f"memory.{kind}_peak_rss_bytes": "known when the run ends" for kind in PEAKS}
    return ledger.summary(accounts.facts.mode or "unknown", {}, {}, unknown)
