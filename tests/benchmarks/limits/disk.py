"""What the store on disk adds to a round, beside one sync and one SQLite commit of the same bytes.

The least is to write all of a round's updates and to wait for the disk once. The store waits more often: when an
exchange opens, for updates before they are acknowledged, as many at once as have gathered, and when the round closes.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from tests.benchmarks.limits.transport import PROTOTYPES

CLIENTS = (2, 8, 20)
UPDATE_BYTES = sum(PROTOTYPES.up)

NUM_ROUNDS = 100
REPEATS = 3
"""Runs of each kind, which take turns."""


def run(out: Path) -> list[Figure]:
    """Return the times, in ms."""
    return [figure for num_clients in CLIENTS for figure in _of_clients(out, num_clients)]


def _of_clients(out: Path, num_clients: int) -> list[Figure]:
    name = f"{num_clients} clients"
    sync = Figure.of(f"{name}: write and sync", "ms", _syncs_ms(out / "synced", num_clients))
    commit = Figure.of(f"{name}: one SQLite commit", "ms", _commits_ms(out / f"{num_clients}.sqlite", num_clients))
    return [sync, commit, Figure.of(
        f"{name}: added to a round", "ms", _added_ms(out, num_clients), limit=commit.median, limit_name="one commit"
    )]  # fmt: skip


def _added_ms(out: Path, num_clients: int) -> list[float]:
    """Return by how much the median round is longer on disk than in memory, in each pair of runs."""
    added = []
    for _ in range(REPEATS):
        memory, disk = (
            job.run(job.noop_settings(out, num_clients, NUM_ROUNDS, store), out).summary["coordination_s"]["median"]
            for store in ("memory", "disk")
        )
        added.append(1000 * (disk - memory))
    return added


def _syncs_ms(path: Path, num_updates: int) -> list[float]:
    with path.open("ab", buffering=0) as file:

        def write() -> None:
            file.write(bytes(num_updates * UPDATE_BYTES))
            os.fdatasync(file.fileno())

        return _times_ms(write)


def _commits_ms(path: Path, num_updates: int) -> list[float]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE updates (content BLOB)")

        def commit() -> None:
            database.execute("BEGIN")
            database.executemany("INSERT INTO updates VALUES (?)", [(bytes(UPDATE_BYTES),)] * num_updates)
            database.execute("COMMIT")

        return _times_ms(commit)


def _times_ms(call: Callable[[], None]) -> list[float]:
    durations = []
    for _ in range(NUM_ROUNDS):
        started = time.perf_counter()
        call()
        durations.append(1000 * (time.perf_counter() - started))
    return durations
