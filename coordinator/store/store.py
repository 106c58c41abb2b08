"""The coordinator's memory: what it has acknowledged and where the run stands, in one SQLite file that survives a kill.

Theory of operation. The run moves through the store in this order, every arrow one transaction:

    open_exchange -> put_updates ... -> close_exchange  (as often as the round has exchanges)

and what closes a round is `together` with the close of its last exchange, or of the one that failed. So after a kill an
exchange is open, or the run stands between two exchanges of a round, or between two rounds.

The event loop only queues (`writer.py` commits in groups on a thread of its own) and is told by `on_durable` when a
change can no longer be lost: an update is acknowledged then and not before. After a kill `position` returns the last
that was committed: the exchange in hand with its downlink and the updates it had, or between exchanges the latest state
of the server half. What was not durable was not acknowledged, so its client sends it again.

Until a round closes, what was aggregated is round-scoped: `states` holds the server half as it was at the round's start
and after the last closed exchange. A completed round makes the latter the start of the next, a failed one drops it. A
run that starts from another one's state has that as the outcome of a round 0. Frames go when their exchange closes, so
the file's size is bounded by one exchange, two states and the metrics, which grow by a line per client and exchange.

An update's buffer above `SPILL_BYTES` becomes a file in a folder beside the store (`buffers.py`), durable before its
row is committed.

Refused: opening a store that another process has open, a newer, damaged or foreign file; an update whose exchange is
not open or that was stored before. Any failure to commit ends the store: `on_failed` is called, nothing later is
acknowledged, and the file holds what had been. A full disk is waited for instead while a run goes on.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from coordinator.store import stored
from coordinator.store.buffers import BufferFolder, UpdateKey
from coordinator.store.schema import StoreError, explain, lock_store, open_database
from coordinator.store.stored import ClosedExchange, RoundRecord, StoredConstant, StoredPosition, StoredUpdate
from coordinator.store.stored_facts import StoredFacts
from coordinator.store.writer import Callback, Writer
from wire.messages import Ready
from wire.tensors import Buffer

__all__ = [
    "SPILL_BYTES", "ClosedExchange", "RoundRecord", "Store", "StoreError", "StoredConstant", "StoredPosition",
    "StoredUpdate",
]  # fmt: skip

SPILL_BYTES = 256 * 1024
"""An update's buffer above this size becomes a file; below it a row costs less than a file's two syncs."""

METRIC_LINES_PER_READ = 500


class Store:
    """What the run has durably reached; every method but the reads returns at once, from the loop's thread."""

    def __init__(
        self,
        path: Path | None,
        notify: Callable[[Callback], None],
        on_failed: Callable[[StoreError], None],
        in_memory: bool = False,
    ) -> None:
        """Open the store at `path`, new or not; None keeps it in memory, and nobody can tell who has it.

        Args:
            path: the SQLite file, in a folder that exists.
            in_memory: no file is made, but that would be its place is held as if there were one.
            notify: runs a callback on the caller's thread later (`loop.call_soon_threadsafe`); called from the store's
                own thread, or of a store in memory from the caller's. It must not raise: the store is closed before
                the loop.
            on_failed: hears once, by `notify`, that nothing more will be stored.

        Raises:
            StoreError: the file is in use, newer, damaged, foreign, or its folder cannot be written.
        """
        self._path = None if in_memory else path
        self._folder = BufferFolder(self._path.with_suffix(".buffers")) if self._path else None
        self._lock = lock_store(path) if path else None
        try:
            connection = self._open()
        except BaseException:
            self._unlock()
            raise
        explained = functools.partial(explain, self._path)
        self._writer = Writer(connection, notify, on_failed, explained, self._path is not None)

    def wait_for_space(self, tell: Callable[[str], None]) -> None:
        """From now on wait for space where the disk is full, rather than fail; `tell` hears of it by `notify`."""
        self._writer.wait_for_space(tell)

    def waits_for_space(self) -> bool:
        """Say whether something that is to be stored waits for space now."""
        return self._writer.is_short

    def wait_no_more(self) -> None:
        """Fail from now on where the disk is full, also if that is waited for now; a signal's handler may call this."""
        self._writer.wait_no_more()

    def close(self) -> None:
        """Commit what is queued and let go of the file, within a bounded time; a full disk is not waited for.

        Raises:
            StoreError: the disk did not take it, or not in that time.
        """
        try:
            self._writer.close()
        finally:
            if not self._writer.is_at_work:
                self._unlock()

    def together(self) -> contextlib.AbstractContextManager[None]:
        """Make all changes inside one transaction."""
        return self._writer.together()

    def put_meta(self, key: str, value: str, on_durable: Callback | None = None) -> None:
        """Set one fact about the run."""
        self._write("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value), on_durable)

    def put_constant(self, name: str, digest: str, header: bytes, buffer: bytes) -> None:
        """Store a run constant, once and for all."""
        self._write("INSERT INTO constants VALUES (?, ?, ?, ?)", (name, digest, header, buffer))

    def put_start(self, header: bytes, buffer: Buffer) -> None:
        """Store the server half that the run starts from, if that is not its initial one."""
        self._write("INSERT INTO states VALUES (0, 0, ?, ?)", (header, buffer))

    def put_client(self, client: str, ready: bytes) -> None:
        """Store what a client announced; the latest word holds."""
        self._write("INSERT OR REPLACE INTO clients VALUES (?, ?)", (client, ready))

    def put_device(self, client: str, profile: str) -> None:
        """Store what a client says of its device, as JSON; the latest word holds."""
        self._write("INSERT OR REPLACE INTO devices VALUES (?, ?)", (client, profile))

    def open_exchange(
        self,
        round: int,
        exchange: int,
        cohort: Sequence[str],
        downlink_header: bytes,
        downlink_buffer: Buffer,
        on_durable: Callback | None = None,
    ) -> None:
        """Note who is asked and with what, so that a restart asks the same again; one exchange is open at a time."""
        row = (round, exchange, json.dumps(list(cohort)), None, downlink_header, downlink_buffer)
        self._write("INSERT INTO exchanges VALUES (?, ?, ?, ?, ?, ?)", row, on_durable)

    def put_updates(self, updates: Sequence[StoredUpdate], on_durable: Callback | None) -> None:
        """Store updates of the open exchange together; they may be acknowledged when `on_durable` is called."""

        def run(connection: sqlite3.Connection) -> None:
            for update in updates:
                self._insert_update(update, connection)

        self._writer.write(run, on_durable)

    def close_exchange(
        self,
        round: int,
        exchange: int,
        state_header: bytes | None,
        state_buffer: Buffer | None,
        rows: Sequence[str],
        on_durable: Callback | None = None,
        accepted: Sequence[str] = (),
    ) -> None:
        """Commit what an exchange came to and forget its frames.

        Args:
            round: the exchange's round.
            exchange: its index.
            state_header: the server half after it; None if it changed nothing (evaluation).
            state_buffer: the same, second frame.
            rows: metric lines, JSON objects with an `exchange_index`; a line about a client names it as `client`.
            on_durable: called when all of it is committed.
            accepted: clients whose updates were accepted, beside those whose updates are stored.
        """

        def run(connection: sqlite3.Connection) -> Callback:
            spilled = _mark_closed(connection, round, exchange, accepted)
            if state_header is not None:
                _replace_state(connection, round, exchange, state_header, state_buffer)
            _insert_lines(connection, round, rows)
            return functools.partial(self._drop_buffers, spilled)

        self._writer.write(run, on_durable)

    def close_round(self, record: RoundRecord, accepted: Sequence[str], rows: Sequence[str] = ()) -> None:
        """Commit how a round ended.

        Args:
            record: the round's record; a failed one puts the state back to the round's start.
            accepted: the clients whose update of the last exchange counted; ignored for a failed round.
            rows: metric lines of an exchange that a failed round left open; see `close_exchange`.
        """

        def run(connection: sqlite3.Connection) -> Callback:
            _insert_lines(connection, record.round, rows)
            connection.execute("INSERT INTO rounds VALUES (?, ?, ?, ?, ?, 0.0, ?)", record)
            spilled: list[UpdateKey] = []
            if record.status == "completed":
                _keep(connection, record.round, accepted)
            else:
                spilled = _drop_round(connection, record.round)
            return functools.partial(self._drop_buffers, spilled)

        self._writer.write(run)

    def facts(self) -> StoredFacts:
        """Return what is stored of the run as a whole."""
        return self._writer.read(stored.read_facts)

    def constants(self) -> list[StoredConstant]:
        """Return the run constants, in the order in which they were stored."""
        return self._writer.read(stored.read_constants)

    def announced(self) -> dict[str, Ready]:
        """Return the last word of each client, by id."""
        return self._writer.read(stored.read_announced)

    def devices(self) -> dict[str, dict[str, Any]]:
        """Return what each client says of its device, by client id."""
        return self._writer.read(stored.read_devices)

    def position(self) -> StoredPosition:
        """Return where the run stands, all earlier calls included."""
        return self._writer.read(stored.read_position)

    def closed_exchanges(self, round: int) -> list[ClosedExchange]:
        """Return the closed exchanges of a round, in order; those of a failed round too."""
        return self._writer.read(lambda connection: stored.read_closed_exchanges(connection, round))

    def round_records(self) -> list[RoundRecord]:
        """Return every round's record, in order."""
        return self._writer.read(stored.read_rounds)

    def global_hash(self, round: int) -> str | None:
        """Return the hash of the global state with which a round ended, None if it has no record."""
        return self._writer.read(lambda connection: stored.read_global_hash(connection, round))

    def metric_lines(self) -> Iterator[str]:
        """Yield the metric lines in the order in which they were committed, a few hundred in memory at a time."""
        after = 0
        while True:
            page = self._writer.read(
                functools.partial(stored.read_metric_lines, after=after, limit=METRIC_LINES_PER_READ)
            )
            if not page:
                return
            yield from (line for _, line in page)
            after = page[-1][0]

    def load_buffer(self, round: int, exchange: int, client: str) -> bytes:
        """Return the buffer of a durable update of the open exchange, from any thread.

        Raises:
            StoreError: there is no such update, or the store has failed.
        """
        key = (round, exchange, client)
        buffer = self._folder.read(key) if self._folder else None
        if buffer is None:
            buffer = self._writer.read(functools.partial(stored.read_buffer, key=key))
        if buffer is None:
            raise StoreError(f"store {self._path}: no update of {client!r} in round {round}, exchange {exchange}")
        return buffer

    def _open(self) -> sqlite3.Connection:
        """Open the database and bring the folder of buffers in line with it."""
        connection = open_database(self._path)
        try:
            if self._folder is not None:
                self._folder.sweep(stored.read_spilled(connection))
        except (OSError, sqlite3.Error) as error:
            connection.close()
            raise explain(self._path, error) from error
        return connection

    def _write(self, statement: str, row: tuple[object, ...], on_durable: Callback | None = None) -> None:
        def run(connection: sqlite3.Connection) -> None:
            connection.execute(statement, row)

        self._writer.write(run, on_durable)

    def _insert_update(self, update: StoredUpdate, connection: sqlite3.Connection) -> None:
        """Insert the row first, so that a second update of one key fails before it touches the first one's file."""
        if update.buffer is None:
            raise TypeError(f"update of {update.client}: expected a buffer, got None")
        size = memoryview(update.buffer).nbytes
        folder = self._folder if size > SPILL_BYTES else None
        key = (update.round, update.exchange, update.client)
        row = (*key, update.num_train, update.header, update.report, size, None if folder else update.buffer)
        inserted = connection.execute(
            "INSERT INTO updates SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE EXISTS "
            "(SELECT 1 FROM exchanges WHERE round = ?1 AND exchange = ?2 AND accepted IS NULL)",
            row,
        )
        _expect_open(inserted, update.round, update.exchange)
        if folder is not None:
            folder.write(key, update.buffer)

    def _drop_buffers(self, keys: Sequence[UpdateKey]) -> None:
        if self._folder is not None:
            self._folder.drop(keys)

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _expect_open(change: sqlite3.Cursor, round: int, exchange: int) -> None:
    if change.rowcount != 1:
        raise LookupError(f"exchange {exchange} of round {round} is not open")


def _mark_closed(connection: sqlite3.Connection, round: int, exchange: int, accepted: Sequence[str]) -> list[UpdateKey]:
    """Close an exchange: its frames go, the ids of those whose updates were accepted stay."""
    key = (round, exchange)
    clients = connection.execute("SELECT client FROM updates WHERE round = ? AND exchange = ?", key)
    everybody = json.dumps(sorted({*accepted, *(client for (client,) in clients)}))
    closed = connection.execute(
        "UPDATE exchanges SET accepted = ?, downlink_header = NULL, downlink_buffer = NULL "
        "WHERE round = ? AND exchange = ? AND accepted IS NULL",
        (everybody, *key),
    )
    _expect_open(closed, *key)
    return _drop_updates(connection, round)


def _insert_lines(connection: sqlite3.Connection, round: int, lines: Sequence[str]) -> None:
    connection.executemany(
        "INSERT INTO metrics (round, exchange, client, line) "
        "VALUES (?1, json_extract(?2, '$.exchange_index'), coalesce(json_extract(?2, '$.client'), ''), ?2)",
        [(round, line) for line in lines],
    )


def _drop_updates(connection: sqlite3.Connection, round: int) -> list[UpdateKey]:
    """Drop the updates of a round, all of its open exchange; return the keys of those whose buffers are files."""
    spilled = [key for key, _ in stored.read_spilled(connection) if key[0] == round]
    connection.execute("DELETE FROM updates WHERE round = ?", (round,))
    return spilled


def _replace_state(
    connection: sqlite3.Connection, round: int, exchange: int, header: bytes, buffer: Buffer | None
) -> None:
    """Make this the latest state, of the round's own ones the only one."""
    connection.execute("DELETE FROM states WHERE round = ?", (round,))
    connection.execute("INSERT INTO states VALUES (?, ?, ?, ?)", (round, exchange, header, buffer))


def _drop_round(connection: sqlite3.Connection, round: int) -> list[UpdateKey]:
    """Drop what a failed round has come to, and what an exchange of it that never closed left behind."""
    connection.execute("DELETE FROM states WHERE round = ?", (round,))
    connection.execute("DELETE FROM exchanges WHERE round = ? AND accepted IS NULL", (round,))
    return _drop_updates(connection, round)


def _keep(connection: sqlite3.Connection, round: int, accepted: Sequence[str]) -> None:
    """Make the latest state the start of the next round, the only one left."""
    connection.execute("DELETE FROM states WHERE round < (SELECT max(round) FROM states)")
    connection.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?)", [(client, round) for client in accepted])
