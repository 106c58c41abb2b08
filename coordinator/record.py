"""What a run leaves behind: the store that survives a kill, and the files of the run folder that people read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from coordinator import commands
from coordinator import round_events as rounds
from coordinator.display import Display
from coordinator.metrics import Ledger
from coordinator.run_folder import RunFolder
from coordinator.server_half import Constant
from coordinator.store import SPILL_BYTES, RoundRecord, Store, StoredUpdate, StoreError
from models.methods import find
from models.settings import read_toml
from models.spec import ConfigError, RunSpec
from wire.encoding import Packed, encode, pack, unpack
from wire.messages import Ready, Update
from wire.payload import Payload
from wire.sockets.child import peak_rss_bytes
from wire.tensors import Buffer

PIPE_BYTES = 1 << 32
"""No size limit on what is stored: what the network may carry was limited before."""


FLUSH_AFTER_S = 0.05
"""How long an accepted update may wait to be written, with others or, if its exchange closes first, not at all."""


class Start(NamedTuple):
    """A global state to start from, and the classes that it knows."""

    state: Packed
    classes: frozenset[int]


def read_start(path: Path, spec: RunSpec) -> Start:
    """Return the last global state of another run of the same method.

    Raises:
        ConfigError: there is no such run, it is of another method, or it has no global state.
    """
    from models.checkpoint import CheckpointError, read

    other = RunFolder.open(path)
    method = read_toml(other.config_path)["method"]["name"]
    if method != spec.method:
        raise ConfigError(f"--init-from {path}: expected a run of method {spec.method}, got one of {method}")
    try:
        arrays, _ = read(other.global_path)
        lines = other.metrics_path.read_text(encoding="utf-8").splitlines()
    except (CheckpointError, OSError) as error:
        raise ConfigError(f"--init-from {path}: expected a run with a global state: {error}") from None
    accounts = Ledger(spec, find(spec.method))
    accounts.replay(lines)
    return Start(pack(Payload.of_state(arrays)), accounts.known_classes)


class RunRecord:
    """The record of one run, on disk or (the store) in memory."""

    def __init__(self, folder: RunFolder, mode: str, in_memory: bool, display: Display, start: Start | None) -> None:
        self.folder = folder
        self.display = display
        self._mode = mode
        self._in_memory = in_memory
        self._start_state = start.state if start is not None else None
        self.start_classes = start.classes if start is not None else None
        self._store: Store
        self._unwritten: list[tuple[StoredUpdate, Callable[[], None]]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._histogram: dict[str, Any] = {}
        self.summary: dict[str, Any] | None = None

    @property
    def start_state(self) -> Packed | None:
        """The server half's state at the start of the open round, None if there is none yet."""
        return self._start_state

    def open(self, on_failed: Callable[[StoreError], None]) -> None:
        """Open the store for use on the running event loop; `on_failed` hears that nothing more will be stored."""
        loop = asyncio.get_running_loop()

        def notify(callback: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(callback)

        def failed(error: StoreError) -> None:
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_exception(error)
            on_failed(error)

        self._store = Store(None if self._in_memory else self.folder.store_path, notify, failed)
        self._metrics = self.folder.metrics_path.open("a", encoding="utf-8")

    def close(self) -> None:
        """Commit what is left and close."""
        self._flush()
        self._metrics.close()
        self._store.close()

    def put_constants(self, constants: Sequence[Constant]) -> None:
        """Store the run constants, which are never made again."""
        for constant in constants:
            message = commands.ConstantMade(constant.name, constant.digest)
            header, buffer = encode(message, constant.packed, PIPE_BYTES)
            self._store.put_constant(constant.name, constant.digest, bytes(header), bytes(buffer))

    def open_exchange(self, opened: rounds.Configure, downlink: Packed) -> asyncio.Future[None]:
        """Store who is asked and with what; the future is done when it is durable."""
        durable, done = _awaitable()
        self._waiting = [durable]
        header, buffer = encode(commands.Configured(), downlink, PIPE_BYTES)
        self._store.open_exchange(opened.round, opened.exchange, opened.cohort, bytes(header), bytes(buffer), done)
        return durable

    def put_update(
        self, update: Update, client: str, num_train: int, frames: Sequence[Buffer], on_durable: Callable[[], None]
    ) -> None:
        """Store an accepted update as it came, within FLUSH_AFTER_S and together with others."""
        key = (update.round, update.exchange, client)
        stored = StoredUpdate(*key, num_train, bytes(frames[0]), frames[1], b"")
        if not self._unwritten:
            asyncio.get_running_loop().call_later(FLUSH_AFTER_S, self._flush)
        self._unwritten.append((stored, on_durable))
        if len(frames[1]) > SPILL_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Write the updates that wait, if their exchange has not closed before."""
        unwritten, self._unwritten = self._unwritten, []
        if unwritten:
            self._store.put_updates([stored for stored, _ in unwritten], _all(unwritten))

    def spills(self, packed: Packed) -> bool:
        """Say whether the store keeps this update in a file, so that memory need not."""
        return not self._in_memory and len(packed.buffer) > SPILL_BYTES

    def load_buffer(self, round: int, exchange: int, client: str) -> bytes:
        """Return the buffer of an update that lies in a file."""
        return self._store.load_buffer(round, exchange, client)

    def close_exchange(self, round: int, exchange: int, state: Packed | None, lines: Sequence[str]) -> None:
        """Store what an exchange came to."""
        header, buffer = _state_frames(state)
        unwritten, self._unwritten = self._unwritten, []
        clients = [stored.client for stored, _ in unwritten]
        self._store.close_exchange(round, exchange, header, buffer, lines, _all(unwritten), clients)
        self._metrics.writelines(f"{line}\n" for line in lines)
        self._metrics.flush()

    def close_round(
        self,
        status: Literal["completed", "failed"],
        round: int,
        reason: str,
        global_hash: str,
        state: Packed | None,
        accepted: Sequence[str],
        line: str,
    ) -> None:
        """Store how a round ended; `state` is the server half after a completed one."""
        self._flush()
        if status == "completed":
            self._start_state = state
        record = RoundRecord(round, status, reason, global_hash, time.time(), 0.0, line)
        self._store.close_round(record, accepted, None, None, _all(()))
        self._metrics.write(f"{line}\n")

    def write_histogram(self, spec: RunSpec, announced: Mapping[str, Ready]) -> None:
        """Write how many samples of each class each client announced, if that has changed."""
        counts = {
            client: {"train": ready.class_counts, "test": ready.test_counts}
            for client, ready in sorted(announced.items())
        }
        if counts != self._histogram:
            self._histogram = counts
            content = json.dumps({"classes": spec.classes, "clients": counts}, indent=1)
            self.folder.histogram_path.write_text(content + "\n", encoding="utf-8")

    def write_indices(self, rows: Mapping[str, np.ndarray]) -> None:
        """Write which samples each client was given, as the `indices` partition reads it."""
        np.savez_compressed(self.folder.indices_path, **rows)  # type: ignore[arg-type]

    def finish(
        self,
        ledger: Ledger,
        state: Packed | None,
        versions: Mapping[str, str],
        aggregator_peak_bytes: int | None,
        client_peaks_bytes: Collection[tuple[int, int]],
        outcome: str,
    ) -> None:
        """Write summary and global arrays.

        Args:
            ledger: the run's accounts.
            state: the server half's last state.
            versions: what ran.
            aggregator_peak_bytes: the aggregator's peak resident memory, if it is known.
            client_peaks_bytes: those of each client and its trainer, 0 where unknown.
            outcome: `finished`, `failed` or `interrupted`.
        """
        from models.checkpoint import write

        if state is not None:
            write(self.folder.global_path, unpack(state).arrays)
        clients, trainers = zip(*client_peaks_bytes, strict=True) if client_peaks_bytes else ((), ())
        memory = {
            "coordinator_peak_rss_bytes": peak_rss_bytes(),
            "aggregator_peak_rss_bytes": aggregator_peak_bytes,
            "client_peak_rss_bytes": max(clients, default=0) or None,
            "trainer_peak_rss_bytes": max(trainers, default=0) or None,
        }
        self.summary = {**ledger.summary(self._mode, memory, versions), "outcome": outcome}
        self.folder.write_summary(self.summary)


def _state_frames(state: Packed | None) -> tuple[bytes | None, bytes | None]:
    if state is None:
        return None, None
    header, buffer = encode(commands.Begin({}, "", False), state, PIPE_BYTES)
    return bytes(header), bytes(buffer)


def _all(waiting: Sequence[tuple[object, Callable[[], None]]]) -> Callable[[], None]:
    """Return a callback that calls all that wait."""

    def call() -> None:
        for _, callback in waiting:
            callback()

    return call


def _awaitable() -> tuple[asyncio.Future[None], Callable[[], None]]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    return future, lambda: None if future.done() else future.set_result(None)
