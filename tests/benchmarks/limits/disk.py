"""What the store on disk adds to a round, beside one sync and one SQLite commit of the same bytes.

The least is to write all of a round's updates and to wait for the disk once. The store waits more often: when an
exchange opens, for updates before they are acknowledged, as many at once as have gathered, and when the round closes.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from tests.benchmarks.limits.transport import PREFIX_BYTES, PROTOTYPES

CLIENTS = (2, 8, 20)
UPDATE_BYTES = sum(PROTOTYPES.up) - PREFIX_BYTES

NUM_ROUNDS = 100
REPEATS = 3
"""Of each kind, of which the medians count; they take turns, so that other work on the machine meets all."""


def run(out: Path) -> list[Figure]:
    """Return the times, in ms."""
    return [figure for num_clients in CLIENTS for figure in _of_clients(out, num_clients)]


def _of_clients(out: Path, num_clients: int) -> list[Figure]:
    sync, commit, added = zip(*(_turn(out, num_clients) for _ in range(REPEATS)), strict=True)
    name = f"{num_clients} clients"
    least = Figure.of(f"{name}: one SQLite commit", "ms", commit)
    about = {"limit": least.median, "limit_name": "one commit"}
    return [
        Figure.of(f"{name}: write and sync", "ms", sync),
        least,
        Figure.of(f"{name}: added to a round", "ms", added, **about),
    ]


def _turn(out: Path, num_clients: int) -> tuple[float, float, float]:
    """Return a sync, a commit, and by how much a round is longer on disk than in memory."""
    memory, disk = (
        1000 * job.run(job.noop_settings(out, num_clients, NUM_ROUNDS, store), out).summary["coordination_s"]["median"]
        for store in ("memory", "disk")
    )
    with tempfile.TemporaryDirectory(dir=out) as folder:
        sync_ms = _sync_ms(Path(folder, "synced"), num_clients)
        return sync_ms, _commit_ms(Path(folder, "store.sqlite"), num_clients), disk - memory


def _sync_ms(path: Path, num_updates: int) -> float:
    with path.open("ab", buffering=0) as file:

        def write() -> None:
            file.write(bytes(num_updates * UPDATE_BYTES))
            os.fdatasync(file.fileno())

        return _median_ms(write)


def _commit_ms(path: Path, num_updates: int) -> float:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("CREATE TABLE updates (content BLOB)")

        def commit() -> None:
            database.execute("BEGIN")
            database.executemany("INSERT INTO updates VALUES (?)", [(bytes(UPDATE_BYTES),)] * num_updates)
            database.execute("COMMIT")

        return _median_ms(commit)


def _median_ms(call: Callable[[], None]) -> float:
    durations = []
    for _ in range(NUM_ROUNDS):
        started = time.perf_counter()
        call()
        durations.append(1000 * (time.perf_counter() - started))
    return statistics.median(durations)
