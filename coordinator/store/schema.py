"""The store's file: opening it for one process alone, its tables, and the steps that bring an older file up to date.

A file is ours if it carries `APPLICATION_ID`; `PRAGMA user_version` counts the migrations it has been through. Opening
runs those that are missing, each in a transaction of its own. A migration that has been released is never changed:
what comes later is appended. A file that is newer than this program, damaged or of another program is refused
untouched.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
from pathlib import Path

from coordinator.units import show_bytes
from models.checkpoint import sync_folder
from models.spec import ConfigError, NoSpaceError, unusable
from wire.disk import FREE_SPACE, advised, lacks_space

APPLICATION_ID = 0x70724564
"""Marks an SQLite file as a store of this program (`prEd`)."""

BUSY_TIMEOUT_S = 5.0
"""How long a transaction waits for another program that has locked the file."""

SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA journal_size_limit = 4194304",
    "PRAGMA cache_size = -256",
)
"""What every connection is told.

`FULL` makes a commit durable when it returns. Rows are written once and seldom read, so 256 KiB of cache will do.
"""

LOG_PAGES = range(64, 1001)
"""How many pages of 4 KiB the write-ahead log may take before they are moved into the file and it begins anew."""

LOG_SHARE = 16
"""The log takes this part of what is free as the store is opened, or less: a disk full of it has no room to move it."""

MIGRATIONS = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE constants (name TEXT PRIMARY KEY, digest TEXT NOT NULL, header BLOB NOT NULL, buffer BLOB NOT NULL);
    -- An exchange is open until `accepted` says whose updates were aggregated; its downlink is dropped then.
    CREATE TABLE exchanges (
        round INTEGER NOT NULL, exchange INTEGER NOT NULL, cohort TEXT NOT NULL, accepted TEXT,
        downlink_header BLOB, downlink_buffer BLOB, PRIMARY KEY (round, exchange));
    CREATE UNIQUE INDEX one_open_exchange ON exchanges (accepted IS NULL) WHERE accepted IS NULL;
    -- `buffer` is null where it lies in a file beside the store.
    CREATE TABLE updates (
        round INTEGER NOT NULL, exchange INTEGER NOT NULL, client TEXT NOT NULL, num_train INTEGER NOT NULL,
        header BLOB NOT NULL, report BLOB NOT NULL, buffer_bytes INTEGER NOT NULL, buffer BLOB,
        PRIMARY KEY (round, exchange, client));
    CREATE TABLE states (
        round INTEGER NOT NULL, exchange INTEGER NOT NULL, header BLOB NOT NULL, buffer BLOB NOT NULL,
        PRIMARY KEY (round, exchange));
    CREATE TABLE metrics (
        id INTEGER PRIMARY KEY, round INTEGER NOT NULL, exchange INTEGER NOT NULL, client TEXT NOT NULL,
        line TEXT NOT NULL);
    CREATE TABLE rounds (
        round INTEGER PRIMARY KEY, status TEXT NOT NULL CHECK (status IN ('completed', 'failed')), reason TEXT NOT NULL,
        global_hash TEXT NOT NULL, started_s REAL NOT NULL, round_s REAL NOT NULL, line TEXT NOT NULL);
    CREATE TABLE kept (client TEXT PRIMARY KEY, round INTEGER NOT NULL);
    """,
    "CREATE TABLE clients (client TEXT PRIMARY KEY, ready BLOB NOT NULL);",
    "CREATE TABLE devices (client TEXT PRIMARY KEY, profile TEXT NOT NULL);",
)
"""The scripts that lead from an empty file to the present schema; version n is the file after the first n."""

ADVICE = (
    ("buffer ", "put back the file, or a copy of the whole run folder, or start a new run"),
    ("full", FREE_SPACE),
    ("No space", FREE_SPACE),
    ("quota", FREE_SPACE),
    ("readonly", "make the file and its folder writable"),
    ("Read-only", "mount the folder's file system to be written to"),
    ("Permission", "make the folder writable"),
    ("locked", "close the other program that has it open"),
    ("malformed", "the file is damaged: put back a copy of the run folder, as from a backup, or start a new run"),
    ("not a database", "the file is damaged or of another program: put back a copy of it, or name another folder"),
    ("constraint", "the same thing was stored twice, a fault of this program; the run can be started again"),
    ("is not open", "a fault of this program; the run can be started again"),
)
"""What to do, by a word of the cause."""


SCANT_BYTES = 128 * 1024
"""Where less is free, that is what an I/O error comes of: SQLite asks for 32 KiB at a time beside what it writes."""

UNCLEAR = ("disk I/O error", "unable to open database file")
"""What SQLite says of a full disk as well."""


class StoreError(Exception):
    """The store cannot be opened, read or written; the text names the file, the cause and what to do.

    `is_full` where the disk has no room for what is to be written.
    """

    def __init__(self, text: str, is_full: bool = False) -> None:
        super().__init__(text)
        self.is_full = is_full


class InUseError(StoreError):
    """Another process, the `holder`, has the store open."""

    def __init__(self, path: Path, holder: str) -> None:
        super().__init__(f"store {path}: in use by process {holder}; stop it or name another folder")
        self.holder = holder


def is_full(error: Exception) -> bool:
    """Say whether it is for want of space that something could not be written."""
    if isinstance(error, StoreError):
        return error.is_full
    return isinstance(error, NoSpaceError) or lacks_space(error)


def refused(text: str, error: Exception) -> ConfigError:
    """Return what a command ends with that could not begin because of an error, which `text` tells of."""
    return unusable(advised(text, is_full(error)), is_full(error))


def free_bytes(folder: Path) -> int | None:
    """Return how much may be written to the disk of a folder, None if that cannot be told."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def explain(path: Path | None, cause: Exception) -> StoreError:
    """Return the error that says of the store at `path` what happened and what to do about it."""
    text = (cause.strerror if isinstance(cause, OSError) else None) or str(cause) or type(cause).__name__
    free = free_bytes(path.parent) if path is not None and text in UNCLEAR else None
    if free is not None and free < SCANT_BYTES:
        text = f"the disk is full, with {show_bytes(free)} free: {text}"
    no_space = is_full(cause) or (isinstance(cause, sqlite3.Error) and "full" in text)
    return StoreError(f"store {path or 'in memory'}: {_with_advice(text)}", no_space)


def in_words(error: Exception, place: Path) -> str:
    """Return what happened to a file, or to one in `place` where the error names none, and what to do about it.

    An error that is not the operating system's own says so itself.
    """
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return f"{error.filename or place}: {_with_advice(error.strerror)}"


def _with_advice(text: str) -> str:
    return f"{text}; {advice_on(text)}"


def advice_on(text: str) -> str:
    """Return what to do about a cause that is told so."""
    return next((advice for word, advice in ADVICE if word in text), "see to the cause")


def lock_path(path: Path) -> Path:
    """Return the file on which the lock of a store lies; the process that has the store holds it open."""
    return Path(f"{path}.lock")


def lock_mark(path: Path) -> tuple[int, int] | None:
    """Return what tells the lock's file from any that comes to its place while it is held; None if none is there.

    Raises:
        OSError: that cannot be told now.
    """
    try:
        found = lock_path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def lock_store(path: Path) -> int:
    """Keep other processes from opening the store at `path` until the returned descriptor is closed, or we die.

    The lock lies on a file beside the store: closing a second descriptor of the store itself would drop SQLite's own.

    Raises:
        InUseError: another process has it open.
        StoreError: the folder is missing or read-only.
    """
    try:
        descriptor = os.open(lock_path(path), os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise explain(path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(descriptor, 20).decode(errors="replace")
        os.close(descriptor)
        raise InUseError(path, holder) from error
    except OSError as error:  # a file system that knows no locks
        os.close(descriptor)
        raise explain(path, error) from error
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except OSError as error:
        os.close(descriptor)
        raise explain(path, error) from error
    return descriptor


def open_database(path: Path | None) -> sqlite3.Connection:
    """Open the store's file, new or not, with the present schema; None opens one in memory.

    Raises:
        StoreError: the file is newer than this program, damaged, of another program or cannot be written.
    """
    connection = None
    try:
        # The connection is handed to the writer's thread after this, and never used by two threads at once.
        connection = sqlite3.connect(
            path or ":memory:", timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        version = _checked_version(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        for setting in SETTINGS:
            connection.execute(setting)
        connection.execute(f"PRAGMA wal_autocheckpoint = {_log_pages(path)}")
        _migrate(connection, version)
        if path is not None:
            sync_folder(path.parent)
    except (sqlite3.Error, OSError, StoreError) as error:
        if connection is not None:
            connection.close()
        raise error if isinstance(error, StoreError) else explain(path, error) from error
    return connection


def _log_pages(path: Path | None) -> int:
    free = free_bytes(path.parent) if path is not None else None
    return LOG_PAGES[-1] if free is None else max(LOG_PAGES[0], min(LOG_PAGES[-1], free // LOG_SHARE // 4096))


def settle(path: Path) -> None:
    """Close a store as its process would have, had it not been killed when its run was over.

    Raises:
        StoreError: it is in use, damaged, or cannot be written.
    """
    lock = lock_store(path)
    try:
        open_database(path).close()
    finally:
        os.close(lock)


def _checked_version(connection: sqlite3.Connection, path: Path | None) -> int:
    """Return the schema version of a file that is sound and ours, 0 for a new one."""
    version, application, num_tables = (
        connection.execute(query).fetchone()[0]
        for query in ("PRAGMA user_version", "PRAGMA application_id", "SELECT count(*) FROM sqlite_master")
    )
    if application != APPLICATION_ID and (application, version, num_tables) != (0, 0, 0):
        raise StoreError(f"store {path}: an SQLite file of another program; name another folder")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"store {path}: expected schema version {len(MIGRATIONS)} or older, got {version}; "
            "start the run again with the program that wrote it, or a newer one"
        )
    finding = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if finding != "ok":
        raise explain(path, sqlite3.DatabaseError(f"malformed: {' '.join(finding.split())}"))
    return int(version)


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
        marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number};"
        connection.executescript(f"BEGIN IMMEDIATE; {script} {marks} COMMIT;")
