"""A run as its folder has it, whether it is over, goes on or was killed.

The lines of the accounts are those of the store or, where that was kept in memory or is gone, of `metrics.jsonl`. A run
that has no `summary.json` is summed up from its lines, by the same accounts that write one at its end. A small file
that is damaged costs what a missing one does, and is told.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from coordinator.aggregator.commands import COMMANDS
from coordinator.metrics.ledger import Ledger
from coordinator.metrics.links import Links
from coordinator.metrics.series import Series, gather
from coordinator.metrics.summary import PEAKS
from coordinator.metrics.tally import RoundLine, read_line
from coordinator.metrics.written_lines import written_lines
from coordinator.report.prototype_map import PrototypeSet, of_file, of_frames
from coordinator.store.run_folder import Histogram, RunFolder, Samples
from coordinator.store.stored import (
    DamagedStoreError,
    read_announced,
    read_devices,
    read_facts,
    read_position,
    read_rounds,
    reading,
)
from coordinator.store.stored_facts import StoredFacts
from coordinator.units import show_numbers
from coordinator.whereabouts import State, whereabouts
from models import methods
from models.checkpoint import CheckpointError
from models.settings import Tables
from models.spec import ConfigError
from wire.messages import NETWORK, Ready
from wire.sockets.log import size_bytes

PartT = TypeVar("PartT")


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
        faults: what is damaged or missing, and so not told, a line each.
    """

    folder: RunFolder
    state: State
    outcome: str
    config: Tables
    summary: Mapping[str, Any]
    series: Series
    classes: Sequence[str] = ()
    samples: Mapping[str, Samples] = field(default_factory=dict)
    global_prototypes: PrototypeSet | None = None
    local_prototypes: Mapping[str, PrototypeSet] = field(default_factory=dict)
    closed_at_s: Mapping[int, float] = field(default_factory=dict)
    faults: Sequence[str] = ()


class Accounts(NamedTuple):
    """The lines of a run: those of its rounds, and a way to read all others, in order; `faults` are in their file."""

    rounds: Sequence[str]
    others: Callable[[], Iterator[str]]
    facts: StoredFacts = StoredFacts()
    announced: Mapping[str, Ready] = {}
    devices: Mapping[str, Mapping[str, Any]] = {}
    state: PrototypeSet | None = None
    local: Mapping[str, PrototypeSet] = {}
    closed_at_s: Mapping[int, float] = {}
    faults: Sequence[str] = ()


def read_run(path: Path) -> Run:
    """Read the run in this folder.

    Raises:
        ConfigError: there is none, it has not begun, or its settings, summary or store cannot be read.
    """
    folder = RunFolder.open(path)
    try:
        return _read_run(folder, _accounts(folder, folder.read_tables()))
    except DamagedStoreError as error:
        if not size_bytes(folder.metrics_path):
            raise
        return _read_run(folder, _written_instead(folder, error.what))


def _read_run(folder: RunFolder, open_accounts: AbstractContextManager[Accounts]) -> Run:
    config, found = folder.read_tables(), whereabouts(folder)
    faults: list[str] = []
    histogram = _unless_damaged(folder.read_histogram, Histogram(), faults)
    with open_accounts as accounts:
        rounds = [line for line in map(read_line, accounts.rounds) if isinstance(line, RoundLine)]
        series = gather(rounds, map(read_line, accounts.others()))
        summary = folder.read_summary() or _summary_so_far(folder, accounts, histogram.classes)
        if summary.get("outcome") not in (None, found.outcome):  # of an earlier time, or its service knows better
            summary = {**summary, "outcome": found.outcome or None, "reason": found.reason}
    if found.state != "running":  # whose last line is being written
        faults += accounts.faults
    faults += _missing_rounds(summary, rounds)
    prototypes = _unless_damaged(lambda: of_file(folder.global_path), None, faults)
    return Run(
        folder=folder,
        state=found.state,
        outcome=found.outcome or found.state,
        config=config,
        summary=summary,
        series=series,
        classes=histogram.classes,
        samples=histogram.clients,
        global_prototypes=prototypes or accounts.state,
        local_prototypes=accounts.local,
        closed_at_s=accounts.closed_at_s,
        faults=[fault.removeprefix(f"{folder.path}/") for fault in faults],
    )


def _unless_damaged(read: Callable[[], PartT], missing: PartT, faults: list[str]) -> PartT:
    """Return what a file holds or, where it is damaged, what stands for a missing one, and take down the fault."""
    try:
        return read()
    except (ConfigError, CheckpointError) as error:
        faults.append(str(error))
        return missing


def _missing_rounds(summary: Mapping[str, Any], rounds: Sequence[RoundLine]) -> list[str]:
    """Return a line if there are rounds that have been closed and are not among these."""
    found = {line.round for line in rounds}
    num_closed = max(summary["rounds_completed"] + summary.get("rounds_failed", 0), *found, 0)
    missing = [round for round in range(1, num_closed + 1) if round not in found]
    what = "round" if len(missing) == 1 else "rounds"
    return [f"the accounts of {what} {show_numbers(missing)} are missing"] if missing else []


@contextmanager
def _accounts(folder: RunFolder, config: Tables) -> Iterator[Accounts]:
    store, metrics = folder.store_path, folder.metrics_path
    if config["run"].get("store") == "memory":
        yield _written_accounts(metrics)
    elif not size_bytes(store) and (size_bytes(metrics) or folder.summary_path.exists()):
        with _written_instead(folder, f"{store}: expected the store of a run, got nothing") as accounts:
            yield accounts
    else:
        with reading(store) as connection:
            yield _stored_accounts(connection)


@contextmanager
def _written_instead(folder: RunFolder, fault: str) -> Iterator[Accounts]:
    """Give the lines of `metrics.jsonl` for those of a store that is damaged or gone, as the fault says."""
    accounts = _written_accounts(folder.metrics_path)
    instead = (
        f"; what is told of rounds is that of {folder.metrics_path.name}" if size_bytes(folder.metrics_path) else ""
    )
    yield accounts._replace(faults=[f"{fault}{instead}", *accounts.faults])


def _written_accounts(path: Path) -> Accounts:
    """Return the lines of a file that are whole; one that cannot be read has none."""
    rounds, num_damaged = [], 0
    try:
        for line in written_lines(path):
            if line is None:
                num_damaged += 1
            elif _is_round(line):
                rounds.append(line)
    except FileNotFoundError:
        return Accounts([], lambda: iter(()))
    except OSError as error:
        return Accounts([], lambda: iter(()), faults=[f"{path}: expected the accounts of a run, got {error.strerror}"])

    def others() -> Iterator[str]:
        return (line for line in written_lines(path) if line is not None and not _is_round(line))

    faults = [f"{path}: lines that are damaged or cut off, and left out: {num_damaged}"] if num_damaged else []
    return Accounts(rounds, others, faults=faults)


def _is_round(line: str) -> bool:
    return line.startswith('{"kind":"round"')


def _stored_accounts(connection: sqlite3.Connection) -> Accounts:
    def lines() -> Iterator[str]:
        return (line for (line,) in connection.execute("SELECT line FROM metrics ORDER BY id"))

    position, records = read_position(connection), read_rounds(connection)
    updates = position.open_exchange.updates if position.open_exchange else []
    found = {update.client: of_frames(update.header, update.buffer, NETWORK) for update in updates}
    state = position.latest_state
    return Accounts(
        rounds=[record.line for record in records],
        others=lines,
        facts=read_facts(connection),
        announced=read_announced(connection),
        devices=read_devices(connection),
        state=of_frames(state.header, state.buffer, COMMANDS) if state else None,
        local={client: prototypes for client, prototypes in found.items() if prototypes},
        closed_at_s={record.round: record.closed_at_s for record in records},
    )


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
