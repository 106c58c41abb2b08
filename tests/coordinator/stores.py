"""What the tests of the store share: updates, whole exchanges, and the two ends of its callbacks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coordinator.config import load
from coordinator.store.run_folder import RunFolder
from coordinator.store.store import SPILL_BYTES, RoundRecord, Store, StoredPosition, StoredUpdate, StoreError

WAIT_S = 20.0
LARGE = bytes(range(256)) * (SPILL_BYTES // 256) + b"!"


def call(callback: Callable[[], None]) -> None:
    """Notify by calling at once, on the store's thread."""
    callback()


def nothing() -> None:
    """Hear that something is durable and do nothing."""


def never() -> None:
    """Hear that something is durable which must not be."""
    raise AssertionError("acknowledged")


def unexpected(error: StoreError) -> None:
    raise error


def figures(**more: Any) -> dict[str, Any]:
    """Return a run's figures: what every summary says, of no rounds, and more."""
    told: dict[str, Any] = {"run_id": "run", "mode": "serve"}
    told |= dict.fromkeys(("num_rounds", "rounds_completed", "num_clients"), 0)
    tables = ("accuracy", "accuracy_by_rule", "uplink", "downlink", "round_s", "coordination_s", "memory", "updates")
    return {**told, **{table: {} for table in tables}, **more}


class Failures(list[StoreError]):
    """Collects what `on_failed` hears."""

    def __init__(self) -> None:
        super().__init__()
        self._happened = threading.Event()

    def __call__(self, error: StoreError) -> None:
        self.append(error)
        self._happened.set()

    def only(self) -> str:
        """Wait for the one failure and return its text."""
        assert self._happened.wait(WAIT_S)
        assert len(self) == 1
        return str(self[0])


class Gate:
    """Holds the store's thread in a callback, so that operations gather behind it."""

    def __init__(self, store: Store) -> None:
        self._open = threading.Event()
        store.put_meta("gate", "", on_durable=self._wait)

    def open(self) -> None:
        self._open.set()

    def _wait(self) -> None:
        assert self._open.wait(WAIT_S)


def update(client: str = "a", buffer: bytes = b"buffer", round: int = 1, exchange: int = 0) -> StoredUpdate:
    return StoredUpdate(round, exchange, client, 10, b"header " + client.encode(), buffer, b"report")


def meta(store: Store) -> dict[str, str]:
    """Return the facts about the run, as text by name."""
    return store._writer.read(lambda connection: dict(connection.execute("SELECT key, value FROM meta")))


def files(path: Path) -> list[Path]:
    return sorted(path.with_suffix(".buffers").glob("*"))


def run_exchange(store: Store, round: int, exchange: int, clients: str = "abc") -> None:
    store.open_exchange(round, exchange, list(clients), b"down", b"link")
    for client in clients:
        store.put_updates([update(client, round=round, exchange=exchange)], nothing)
    name = f"{round}.{exchange}".encode()
    rows = [json.dumps({"round": round, "exchange_index": exchange, "client": client}) for client in clients]
    store.close_exchange(round, exchange, b"head " + name, b"state " + name, rows, nothing)


def complete(store: Store, round: int, accepted: str = "abc") -> None:
    store.close_round(RoundRecord(round, "completed", global_hash=f"hash{round}"), list(accepted))


def stored_run(folder: Path, mode: str, *settings: str) -> RunFolder:
    """Make the run folder of a run that was killed when it had just begun, its modules in `folder / "modules"`."""
    made = RunFolder.create(load(None, [f"run.dir={folder}", *settings]), "20260131-235959")
    store = Store(made.store_path, call, unexpected)
    store.put_meta("mode", mode)
    store.put_meta("modules", str(folder / "modules"))
    store.close()
    return made


def reopened(path: Path) -> StoredPosition:
    """Where the run stands according to a store that nobody has open."""
    store = Store(path, call, unexpected)
    position = store.position()
    store.close()
    return position
