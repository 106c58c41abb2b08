"""`coordinator status RUN_DIR`: where a run stands, read from its store, whether it goes on or not."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

from coordinator import client_api
from coordinator.clients.awaited import FOR_SPACE
from coordinator.clients.waiting import STORE_EVERY_S, Presence
from coordinator.metrics.series import gather
from coordinator.metrics.tally import RoundLine, read_line
from coordinator.metrics.wire_bytes import told_of
from coordinator.status.client_phases import ClientStatus, read_clients
from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import free_bytes, open_database
from coordinator.store.stored import RoundRecord, read_devices, read_facts, read_position, read_rounds, reading
from coordinator.whereabouts import State, Whereabouts, whereabouts
from models import methods
from models.spec import ConfigError
from wire.sockets.log import size_bytes

CLEAR = "\x1b[H\x1b[2J"
"""Makes a terminal empty and begins at its top."""

LITTLE_BYTES = 2**20
"""People are told where less than this is free."""

STALE_S = 1.5 * STORE_EVERY_S
"""Where little is free, who is here is stored so long ago only because there is no room for it."""

RECENT = 20
"""The last accuracy of a rule is looked for in so many rounds."""


class Status(msgspec.Struct, frozen=True):
    """Where a run stands.

    Attributes:
        run_id: its id.
        method: its method's name.
        folder: the run folder, as it was named.
        begun_as: the id that it was begun with, None if the folder still has that name.
        mode: the command that began it, None if nothing is stored yet.
        state: see `whereabouts`.
        outcome: of one that is over: `finished`, `failed`, `interrupted` or `cancelled`.
        reason: why it is over, where the outcome does not say all.
        process: the id of the process that has it, None if there is none on this machine.
        service: the folder of its service, None if it is of none, or another process goes on with it.
        service_is_at_work: whether that service runs.
        num_rounds: how many rounds it has.
        rounds_completed: how many of them were completed by now.
        rounds_failed: how many have failed.
        round: the round in hand, or the last one.
        exchange: the open exchange, counted from 0; None between exchanges.
        exchange_name: its name; None between exchanges, and of a method that is not one of those listed.
        cohort: who is asked in it.
        answered: who of these has answered.
        last_round_s: how long the last round took, if it was completed.
        accuracy: by rule the last accuracy and the round that it is of.
        clients: what each client does, and its last exchange.
        waits_for: whom and what the run waits for, in a line for people.
        connected: by client that is here, for how long nothing had been heard of it, in seconds.
        free_bytes: how much may be written to the run folder's disk, None if that cannot be told.
        seen_s_ago: how long ago it was stored who is here; None if no process has the run.
        waiting: what the clients who do not work now wait for.
        turned_away: what was turned away at the port, by kind.
        undelivered: how many messages could not be sent, by client.
        devices: what each client says of its device.
        connections: what the kernel has counted of each client, as of the last exchange's opening or close.
    """

    run_id: str
    method: str
    folder: str
    begun_as: str | None
    mode: str | None
    state: State
    outcome: str | None
    reason: str
    process: int | None
    service: str | None
    service_is_at_work: bool | None
    num_rounds: int
    rounds_completed: int
    rounds_failed: int
    round: int
    exchange: int | None
    exchange_name: str | None
    cohort: list[str]
    answered: list[str]
    last_round_s: float | None
    accuracy: dict[str, tuple[int, float]]
    clients: dict[str, ClientStatus]
    waits_for: str | None
    connected: dict[str, float | None]
    free_bytes: int | None
    seen_s_ago: float | None
    waiting: dict[str, str]
    turned_away: dict[str, int]
    undelivered: dict[str, int]
    devices: dict[str, dict[str, Any]]
    connections: dict[str, dict[str, Any]]


def read_status(path: Path) -> Status:
    """Return where the run in this folder stands.

    Raises:
        ConfigError: there is no run folder, or its store cannot be read.
    """
    folder = RunFolder.open(path)
    config = folder.read_tables()
    num_rounds: int = config["run"]["num_rounds"]
    found, told_by_service = _by_service(whereabouts(folder), folder)
    in_memory = config["run"].get("store") == "memory"
    if found.outcome and (in_memory or (not size_bytes(folder.store_path) and folder.summary_path.exists())):
        what = "was kept in memory" if in_memory else f"has lost its {folder.store_path.name}"
        told = f"{what} and is over ({found.outcome}): only its figures are left"
        raise ConfigError(f"{folder.run_id} {told}; coordinator report {path} --format table tells them")
    free = free_bytes(path)
    with _opened(folder, found) as connection:
        position, records = read_position(connection), read_rounds(connection)
        devices, facts = read_devices(connection), read_facts(connection)
        accuracy = _latest_accuracy(connection, records)
        opened = position.open_exchange
        presence = facts.presence if found.process is not None else None
        clients = read_clients(connection, opened, presence, facts.waiting)
    last = read_line(records[-1].line) if records else None
    return Status(
        run_id=folder.run_id,
        method=config["method"]["name"],
        folder=str(path),
        begun_as=facts.run_id if facts.run_id and facts.run_id != folder.run_id else None,
        mode=facts.mode or None,
        state=found.state,
        outcome=found.outcome or None,
        reason=found.reason,
        process=found.process.pid if found.process is not None else None,
        service=str(found.queue.folder) if found.queue is not None else None,
        service_is_at_work=client_api.is_at_work(found.queue.folder) if found.queue is not None else None,
        num_rounds=num_rounds,
        rounds_completed=sum(record.status == "completed" for record in records),
        rounds_failed=sum(record.status == "failed" for record in records),
        round=opened.round if opened else min(position.next_round, num_rounds),
        exchange=opened.exchange if opened else None,
        exchange_name=_exchange_name(config["method"]["name"], opened.exchange) if opened else None,
        cohort=list(opened.cohort) if opened else [],
        answered=[update.client for update in opened.updates] if opened else [],
        last_round_s=last.round_s if isinstance(last, RoundLine) else None,
        accuracy=accuracy,
        clients=clients,
        waits_for=told_by_service or _waits_for(presence, free),
        connected={client: presence.silent_s(client) for client in presence.heard_at_s} if presence else {},
        free_bytes=free,
        seen_s_ago=max(0.0, time.time() - presence.at_s) if presence else None,
        waiting=facts.waiting,
        turned_away=facts.turned_away,
        undelivered=facts.undelivered,
        devices=devices,
        connections={client: told_of(link) for client, link in facts.links.links.items()},
    )


def _waits_for(presence: Presence | None, free: int | None) -> str | None:
    """Return what a run waits for by its own word; on a full disk that is what it could not store since."""
    if presence is None:
        return None
    is_stale = time.time() - presence.at_s > STALE_S
    return FOR_SPACE if is_stale and free is not None and free < LITTLE_BYTES else presence.waits_for


def _exchange_name(method: str, exchange: int) -> str | None:
    """Return an exchange's name, None of a method that would be a user's own module to import."""
    if ":" in method:
        return None
    try:
        return methods.find(method).exchange(exchange).name
    except (ConfigError, IndexError):  # another program's
        return None


@contextlib.contextmanager
def _opened(folder: RunFolder, found: Whereabouts) -> Iterator[sqlite3.Connection]:
    """Read the run's store; a service's run that never began has none, which is as good as an empty one.

    Nor has it a whole one where the disk was full as that was made.
    """
    with contextlib.ExitStack() as opened:
        try:
            connection = opened.enter_context(reading(folder.store_path))
        except ConfigError:
            never_began = found.state in ("queued", "over") and not size_bytes(folder.metrics_path)
            if found.queue is None or not (never_began or not folder.store_path.exists()):
                raise
            connection = opened.enter_context(contextlib.closing(open_database(None)))
        yield connection


def _by_service(found: Whereabouts, folder: RunFolder) -> tuple[Whereabouts, str]:
    """Return where a run is and what it waits for, by the word of its service, which may not be on disk yet.

    Of a run that has no service, or one that does not run, nothing is added.
    """
    if found.queue is None or found.outcome:
        return found, ""
    try:
        now = client_api.state(folder.run_id, found.queue.folder)
    except ConfigError:
        return found, ""
    if now.state == "over":
        return found._replace(state="over", outcome=now.outcome, reason=now.told), ""
    return found, now.told


def watch(path: Path, show: Callable[[Status], str], every_s: float, stream: TextIO) -> None:
    """Show where a run stands every so often until it is over; on a terminal each time in the place of the last.

    Raises:
        ConfigError: see `read_status`.
    """
    while True:
        status = read_status(path)
        stream.write(f"{CLEAR if stream.isatty() else ''}{show(status)}\n")
        stream.flush()
        if status.outcome:
            return
        time.sleep(every_s)


def _latest_accuracy(connection: sqlite3.Connection, records: Sequence[RoundRecord]) -> dict[str, tuple[int, float]]:
    """Return the last accuracy of each rule and the round that it is of, from the last rounds' lines alone."""
    closed = [line for record in records[-RECENT:] if isinstance(line := read_line(record.line), RoundLine)]
    first = closed[0].round if closed else 0
    lines = connection.execute("SELECT line FROM metrics WHERE round >= ? ORDER BY id", (first,))
    accuracy = gather(closed, (read_line(text) for (text,) in lines)).accuracy
    return {rule: (points[-1].round, points[-1].weighted) for rule, points in accuracy.items()}
