"""What the store holds, as records, and how a restart reads it back."""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from coordinator.store.buffers import UpdateKey
from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import advice_on
from coordinator.store.stored_facts import StoredFacts, facts_from
from models.spec import ConfigError
from wire.encoding import decode
from wire.errors import WireError
from wire.messages import Ready
from wire.sockets.log import size_bytes

ACCOUNTS = "metrics.jsonl"

NO_STORE = "the run has not begun, or was kept in memory alone"

PUT_BACK = "put it back, or a copy of the run folder"


class DamagedStoreError(ConfigError):
    """The file of a store is there, and cannot be read as one: `what` is wrong, and what to do."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(f"{what}; {advice}")
        self.what = what


class StoredState(NamedTuple):
    """The server half's state: a header, and the raw buffer of its arrays."""

    header: bytes
    buffer: bytes


class StoredConstant(msgspec.Struct, frozen=True):
    """One run constant, as it was made at the run's start."""

    name: str
    digest: str
    header: bytes
    buffer: bytes


class StoredUpdate(msgspec.Struct, frozen=True):
    """One client's uplink of an exchange; `report` is the frame that says how long it took, maybe empty.

    `buffer` may be any contiguous view and must not change until the update is durable. Read back it is bytes, or None
    where it lies in a file: `Store.load_buffer` gives it then.
    """

    round: int
    exchange: int
    client: str
    num_train: int
    header: bytes
    buffer: bytes | bytearray | memoryview | None
    report: bytes


class StoredExchange(msgspec.Struct, frozen=True):
    """The exchange in hand: who was asked, with which downlink, and who has answered, in client-id order."""

    round: int
    exchange: int
    cohort: tuple[str, ...]
    downlink_header: bytes
    downlink_buffer: bytes
    updates: list[StoredUpdate]


class ClosedExchange(msgspec.Struct, frozen=True):
    """Who was asked in a closed exchange and whose updates were aggregated, the latter in client-id order."""

    round: int
    exchange: int
    cohort: tuple[str, ...]
    accepted: tuple[str, ...]


class RoundRecord(NamedTuple):
    """How a round ended; `closed_at_s` in seconds since the epoch, `line` all else as JSON.

    The column of `closed_at_s` is called `started_s`, and beside it is a `round_s` that holds nothing: with others, who
    only reads a store, as a report does, could not read those of older programs.
    """

    round: int
    status: Literal["completed", "failed"]
    reason: str = ""
    global_hash: str = ""
    closed_at_s: float = 0.0
    line: str = "{}"


class StoredPosition(msgspec.Struct, frozen=True):
    """Where the run stands, all that a restart goes on from.

    Attributes:
        next_round: the round in hand or to be opened: one after the last that has a record.
        base_round: the last completed round, 0 before the first.
        failed_in_a_row: failed rounds since then.
        kept: by client, the last completed round whose final update of it was accepted.
        open_exchange: the exchange in hand; of round `next_round`, or the evaluation after the round before it.
        start_state: the server half at the start of round `next_round`; None if nothing has been aggregated by then.
        latest_state: the server half to go on with: later than `start_state` where the round has closed exchanges.
    """

    next_round: int
    base_round: int
    failed_in_a_row: int
    kept: dict[str, int]
    open_exchange: StoredExchange | None
    start_state: StoredState | None
    latest_state: StoredState | None


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Read the store at `path` as it is at one moment, whether its run goes on or not.

    A store that was closed in order has no log beside it; it is read as one that nobody writes, so that none is made.

    Raises:
        ConfigError: there is no store; `DamagedStoreError` if it cannot be read.
    """
    if not path.exists():
        raise ConfigError(f"{path.parent}: there is no {path.name}: {_why_missing(path)}")
    is_closed = not _log_of(path).exists()
    address = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if is_closed else ''}"
    try:
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                if size_bytes(path.with_name(ACCOUNTS)):
                    lost = f"expected the store of a run, got nothing, although {ACCOUNTS} tells of it"
                    raise DamagedStoreError(f"{path}: {lost}", f"put back {_log_of(path).name}, or a copy of both")
                raise ConfigError(f"{path.parent}: the run has not begun: its store was not finished; start it again")
            yield connection
    except (sqlite3.Error, msgspec.MsgspecError, WireError) as error:
        advice = advice_on(str(error) if isinstance(error, sqlite3.Error) else "malformed")
        told = f"{advice}{_still_told(path)}"
        raise DamagedStoreError(f"{path}: expected the store of a run: {error}", told) from None


def _log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _why_missing(path: Path) -> str:
    """Say what a folder without a store has come to, by what else is in it."""
    beside = [name for name in (ACCOUNTS, _log_of(path).name) if size_bytes(path.with_name(name))]
    outcome = "" if beside else _outcome(path)
    if not beside and not outcome:
        return NO_STORE
    proof = f"has begun, by {' and '.join(beside)}," if beside else f"is over ({outcome})"
    still = _still_told(path) if beside else f"; coordinator report {_quoted(path)} --format table tells its figures"
    return f"the run {proof} and has lost it or was kept in memory alone: {PUT_BACK}{still}"


def _outcome(path: Path) -> str:
    """Return how the run ended whose store should be there, "" where its folder does not tell."""
    with suppress(ConfigError):
        return str(RunFolder(path.parent).read_summary().get("outcome", ""))
    return ""


def _quoted(path: Path) -> str:
    return shlex.quote(str(path.parent))


def _still_told(path: Path) -> str:
    """Say what can be had without a store."""
    told = f"; coordinator report {_quoted(path)} still tells of the rounds in {ACCOUNTS}"
    return told if size_bytes(path.with_name(ACCOUNTS)) else ""


def read_position(connection: sqlite3.Connection) -> StoredPosition:
    """Read where the run stands."""
    last, base = connection.execute(
        "SELECT coalesce(max(round), 0), coalesce(max(round) FILTER (WHERE status = 'completed'), 0) FROM rounds"
    ).fetchone()
    return StoredPosition(
        next_round=last + 1,
        base_round=base,
        failed_in_a_row=connection.execute("SELECT count(*) FROM rounds WHERE round > ?", (base,)).fetchone()[0],
        kept=dict(connection.execute("SELECT client, round FROM kept ORDER BY client")),
        open_exchange=_read_open_exchange(connection),
        start_state=_read_state(connection, base),
        latest_state=_read_state(connection, last + 1),
    )


def read_closed_exchanges(connection: sqlite3.Connection, round: int) -> list[ClosedExchange]:
    """Read the closed exchanges of a round, in order."""
    query = (
        "SELECT exchange, cohort, accepted FROM exchanges WHERE round = ? AND accepted IS NOT NULL ORDER BY exchange"
    )
    return [
        ClosedExchange(round, exchange, tuple(json.loads(cohort)), tuple(json.loads(accepted)))
        for exchange, cohort, accepted in connection.execute(query, (round,))
    ]


def read_rounds(connection: sqlite3.Connection) -> list[RoundRecord]:
    """Read every round's record, in order."""
    query = "SELECT round, status, reason, global_hash, started_s, line FROM rounds ORDER BY round"
    return [RoundRecord(*row) for row in connection.execute(query)]


def read_global_hash(connection: sqlite3.Connection, round: int) -> str | None:
    """Read the hash of the global state with which a round ended, None if it has no record."""
    row = connection.execute("SELECT global_hash FROM rounds WHERE round = ?", (round,)).fetchone()
    return row[0] if row else None


def read_facts(connection: sqlite3.Connection) -> StoredFacts:
    """Read what is stored of the run as a whole.

    Raises:
        msgspec.MsgspecError: a fact is damaged.
    """
    return facts_from(dict(connection.execute("SELECT key, value FROM meta")))


def read_announced(connection: sqlite3.Connection) -> dict[str, Ready]:
    """Read the last word of each client, by id; a store that an older program wrote does not have it."""
    if not _has_table(connection, "clients"):
        return {}
    rows = connection.execute("SELECT client, ready FROM clients ORDER BY client")
    return {client: _ready(header) for client, header in rows}


def read_devices(connection: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """Read what each client says of its device; a store that an older program wrote does not have it."""
    if not _has_table(connection, "devices"):
        return {}
    rows = connection.execute("SELECT client, profile FROM devices ORDER BY client")
    return {client: json.loads(profile) for client, profile in rows}


def read_constants(connection: sqlite3.Connection) -> list[StoredConstant]:
    """Read the run constants, in the order in which they were stored."""
    query = "SELECT name, digest, header, buffer FROM constants ORDER BY rowid"
    return [StoredConstant(*row) for row in connection.execute(query)]


def read_metric_lines(connection: sqlite3.Connection, after: int, limit: int) -> list[tuple[int, str]]:
    """Read up to `limit` metric lines behind the one numbered `after`, each with its number."""
    query = "SELECT id, line FROM metrics WHERE id > ? ORDER BY id LIMIT ?"
    return connection.execute(query, (after, limit)).fetchall()


def read_buffer(connection: sqlite3.Connection, key: UpdateKey) -> bytes | None:
    """Read the buffer of an update, None if there is no such row or its buffer lies in a file."""
    query = "SELECT buffer FROM updates WHERE round = ? AND exchange = ? AND client = ?"
    row = connection.execute(query, key).fetchone()
    return row[0] if row else None


def read_spilled(connection: sqlite3.Connection) -> Iterator[tuple[UpdateKey, int]]:
    """Read the key and the size in bytes of every buffer that lies in a file."""
    query = "SELECT round, exchange, client, buffer_bytes FROM updates WHERE buffer IS NULL"
    for round, exchange, client, size in connection.execute(query):
        yield (round, exchange, client), size


def _ready(header: bytes) -> Ready:
    message, _ = decode([header])
    assert isinstance(message, Ready)
    return message


def _has_table(connection: sqlite3.Connection, name: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone() is not None


def _read_open_exchange(connection: sqlite3.Connection) -> StoredExchange | None:
    row = connection.execute(
        "SELECT round, exchange, cohort, downlink_header, downlink_buffer FROM exchanges WHERE accepted IS NULL"
    ).fetchone()
    if row is None:
        return None
    round, exchange, cohort, header, buffer = row
    query = (
        "SELECT round, exchange, client, num_train, header, buffer, report FROM updates "
        "WHERE round = ? AND exchange = ? ORDER BY client"
    )
    updates = [StoredUpdate(*fields) for fields in connection.execute(query, (round, exchange))]
    return StoredExchange(round, exchange, tuple(json.loads(cohort)), header, buffer, updates)


def _read_state(connection: sqlite3.Connection, up_to_round: int) -> StoredState | None:
    query = "SELECT header, buffer FROM states WHERE round <= ? ORDER BY round DESC, exchange DESC LIMIT 1"
    row = connection.execute(query, (up_to_round,)).fetchone()
    return StoredState(*row) if row else None
