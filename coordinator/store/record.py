"""What a run leaves behind: the store that survives a kill, and the files of the run folder that people read."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from coordinator import round_events
from coordinator.aggregator import commands
from coordinator.aggregator.half import Constant
from coordinator.clients.waiting import Presence
from coordinator.config import RunConfig
from coordinator.display import Display
from coordinator.metrics.ledger import Ledger
from coordinator.metrics.links import StoredLinks
from coordinator.metrics.since_start import SentConstants
from coordinator.metrics.tally import Refusals
from coordinator.start import Start
from coordinator.store.begun import check_begun, texts_of
from coordinator.store.growing import GrowingFile
from coordinator.store.pending import Pending, call_all
from coordinator.store.run_folder import RunFolder
from coordinator.store.standing import Told, read_standing, stored_lines
from coordinator.store.store import SPILL_BYTES, RoundRecord, Store, StoredUpdate, StoreError
from coordinator.store.stored_facts import SENT_CONSTANTS, text_of
from coordinator.store.whole import check_whole
from models.client_states import drop_states
from models.methods import find
from models.spec import RunSpec
from wire.encoding import Frames, Packed, encode, unpack
from wire.exit_codes import GIVEN_UP
from wire.limits import PIPE_BYTES
from wire.messages import Ready, Update
from wire.tensors import Buffer
from wire.timing import Timing


class RunRecord:
    """The record of one run, new or not, on disk or (the store) in memory."""

    def __init__(
        self, folder: RunFolder, config: RunConfig, mode: str, modules: Path, display: Display, start: Start | None
    ) -> None:
        """Open the store and read where the run stands; `attach` comes before anything is put.

        Args:
            folder: where it is.
            config: the run's settings.
            mode: `loopback`, `simulate` or `serve`.
            modules: folder of a user's own modules.
            display: what tells people.
            start: what a new run starts from, if that is not the method's initial state.

        Raises:
            OSError, StoreError: the store or the accounts cannot be opened, read or written; nothing stays open.
            ConfigError: the run was begun with other settings or under another id; nothing stays open.
        """
        self.folder = folder
        self.display = display
        self.mode = mode
        self._in_memory = config.run.store == "memory"
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_failed: Callable[[StoreError], None] = lambda error: None
        self._closing: Callable[[], None] | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._failure: StoreError | None = None
        self._histogram: dict[str, Any] = {}
        self._closed = False
        self.summary: dict[str, Any] | None = None
        self.is_batched = self.has_work = False
        """Whether clients have trained together, so that last bits differ; and whether any has been asked to work."""
        method = find(config.method_name)
        self._store = Store(folder.store_path, self._notify, self._failed, self._in_memory)
        self.waits_for_space = self._store.waits_for_space
        """Says whether the disk is full and that is waited for now."""
        self._pending = Pending(self._store, self._in_memory)
        with contextlib.ExitStack() as opened:
            opened.callback(self._store.close)
            facts = self._store.facts()
            if not facts.mode:
                self._put_first(mode, modules, start)
                facts = self._store.facts()
            found = self._store.position()
            check_begun(folder, facts)
            check_whole(folder, self._store, found)
            is_told = facts.mode != "serve" or folder.read_summary().get("outcome") in GIVEN_UP
            told = Told(folder.run_id, config.transport.is_encrypted, is_told)
            self.standing = read_standing(self._store, facts, found, method, told)
            folder.write_metrics(stored_lines(self._store, method))
            self._metrics = GrowingFile(folder.metrics_path)
            opened.pop_all()
        self._start_state = self.standing.start_state
        self._announced = dict(self.standing.announced)
        self._turned_away = dict(self.standing.turned_away)
        self._devices: dict[str, Mapping[str, Any]] = dict(self.standing.devices)
        self._peaks: Mapping[str, int | None] = {}

    @property
    def start_state(self) -> Packed | None:
        """The server half's state at the start of the open round, None if there is none yet."""
        return self._start_state

    def attach(self, on_failed: Callable[[StoreError], None]) -> None:
        """Belong to the running event loop from now on; `on_failed` hears there that nothing more will be stored."""
        self._loop = asyncio.get_running_loop()
        self._on_failed = on_failed
        self._store.wait_for_space(self.display.note)
        self.put_waiting({})
        self.forget_end()

    def forget_end(self) -> None:
        """Remove the figures of an earlier time, as the run goes on; the peaks of memory in them are handed on."""
        self._peaks = {**self._peaks, **self.folder.take_summary().get("memory", {})}

    def _notify(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # a loop that is closed: nobody is there to hear it
            if self._loop is not None:
                call = self._loop.call_soon if self._in_memory else self._loop.call_soon_threadsafe
                call(callback)

    def _failed(self, error: StoreError) -> None:
        self._failure = error
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        self._on_failed(error)

    def wait_no_more(self) -> None:
        """Let a store that waits for space fail before long instead; a signal's handler may call this."""
        self._store.wait_no_more()

    def close(self) -> None:
        """Commit what is left and close; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        with contextlib.closing(self._store), self._metrics:  # one that fails leaves the other closed
            self._pending.flush()

    def drop_client_states(self, clients: Iterable[str]) -> None:
        """Delete the states of simulated clients, which are of no use once the run is finished."""
        for client in clients:
            drop_states(self.folder.clients_path / client)
        with contextlib.suppress(OSError):  # features that an audit wants are there as well
            self.folder.clients_path.rmdir()

    def lines(self) -> Iterator[str]:
        """Yield the lines of `metrics.jsonl` that earlier processes of the run left."""
        with self.folder.metrics_path.open(encoding="utf-8") as file:
            yield from file

    def _put_first(self, mode: str, modules: Path, start: Start | None) -> None:
        """Store what a run must know of itself before anything has happened in it."""
        with self._store.together():
            self._store.put_meta("mode", mode)
            self._store.put_meta("modules", str(modules.resolve()))
            self._put_begun()
            if start is not None:
                header, buffer = _state_frames(start.state)
                self._store.put_start(bytes(header), buffer)
                self._put_fact("start_classes", sorted(start.classes))
                self._put_fact("init_from", start.origin)

    def write_config(self, config: RunConfig) -> None:
        """Write the settings anew, when what they left open is settled; the run goes on with these alone."""
        self.folder.write_config(config)
        with self._store.together():
            self._put_begun()

    def _put_begun(self) -> None:
        for key, value in texts_of(self.folder).items():
            self._store.put_meta(key, value)

    def put_constants(self, constants: Sequence[Constant]) -> asyncio.Future[None]:
        """Store the run constants, which are never made again; the future is done when they are durable."""
        durable, done = self._awaitable()
        with self._store.together():
            for constant in constants:
                message = commands.ConstantMade(constant.name, constant.digest)
                header, buffer = encode(message, constant.packed, PIPE_BYTES)
                self._store.put_constant(constant.name, constant.digest, bytes(header), bytes(buffer))
            self._store.put_meta("begun", "", done)
        return durable

    def put_ready(self, client: str, ready: Ready) -> None:
        """Store what a client announced, if that is news."""
        if self._announced.get(client) != ready:
            self._announced[client] = ready
            self._store.put_client(client, bytes(encode(ready)[0]))

    def put_sent_constants(self, client: str, sent: SentConstants) -> None:
        """Store what run constants a client was sent: one that has them by now is not sent them again."""
        self._put_fact(f"{SENT_CONSTANTS}{client}", sent)

    def put_num_train(self, num_train: int) -> None:
        """Store how many train samples the run had when its first round opened."""
        self._put_fact("num_train", num_train)

    def put_turned_away(self, counts: Mapping[str, int]) -> None:
        """Store what was turned away at the port, by kind, if that is news."""
        if counts != self._turned_away:
            self._turned_away = dict(counts)
            self._put_fact("turned_away", self._turned_away)

    def put_undelivered(self, counts: Mapping[str, int]) -> None:
        """Store how many messages could not be sent, by client."""
        self._put_fact("undelivered", counts)

    def put_refusals(self, misfits: Mapping[str, int], refusals: Refusals) -> None:
        """Store how many updates were refused: of each client for what is in them, and all by kind."""
        with self._store.together():
            self._put_fact("misfits", misfits)
            self._put_fact("refusals", refusals)

    def put_waiting(self, waits_for: Mapping[str, str]) -> None:
        """Store what the clients who do not work now wait for."""
        self._put_fact("waiting", waits_for)

    def put_presence(self, presence: Presence) -> None:
        """Store who is here now, and whom the run waits for."""
        self._put_fact("presence", presence)

    def put_device(self, client: str, profile: Mapping[str, Any]) -> None:
        """Store what a client says of its device, if that is news."""
        if self._devices.get(client) != profile:
            self._devices[client] = profile
            self._store.put_device(client, json.dumps(profile))

    def open_exchange(
        self, opened: round_events.Configure, downlink: Packed, links: StoredLinks | None
    ) -> asyncio.Future[None]:
        """Store who is asked and with what, and `links` if they are news; the future is done when it is durable.

        How the exchange before it ended becomes durable with it: one commit less to wait for.
        """
        durable, done = self._awaitable()
        self.has_work = True
        header, buffer = self._stored(encode(commands.Configured(), downlink, PIPE_BYTES))

        def write() -> None:
            if links is not None:
                self._put_fact("links", links)
            self._store.open_exchange(opened.round, opened.exchange, opened.cohort, header, buffer, done)

        self._pending.put(write)
        if self._in_memory:
            done()
        else:
            self._pending.flush()
        return durable

    def settle(self) -> asyncio.Future[None]:
        """Write all that waits; the future is done when it is durable."""
        durable, done = self._awaitable()
        self._pending.flush()
        self._store.put_updates([], done)
        return durable

    def _put_fact(self, name: str, value: Any) -> None:
        self._store.put_meta(name, text_of(value))

    def _awaitable(self) -> tuple[asyncio.Future[None], Callable[[], None]]:
        """Return a future, which a store that fails, or has failed, ends too, and what sets it."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting = future
        if self._failure is not None:
            future.set_exception(self._failure)
        return future, lambda: None if future.done() else future.set_result(None)

    def put_update(
        self,
        update: Update,
        client: str,
        num_train: int,
        frames: Frames,
        timing: Timing | None,
        on_durable: Callable[[], None],
    ) -> None:
        """Store an accepted update as it came, before long and together with others."""
        header, buffer = self._stored(frames)
        report = timing.frame() if timing is not None else b""
        stored = StoredUpdate(update.round, update.exchange, client, num_train, header, buffer, report)
        self._pending.put_update(stored, on_durable)
        if len(frames[1]) > SPILL_BYTES:
            self._pending.flush()

    def _stored(self, frames: Frames) -> tuple[bytes, Buffer]:
        """Return frames as they are stored: in memory without the arrays, which nobody can come back for."""
        return bytes(frames[0]), b"" if self._in_memory else frames[1]

    def spills(self, packed: Packed) -> bool:
        """Say whether the store keeps this update in a file, so that memory need not."""
        return not self._in_memory and len(packed.buffer) > SPILL_BYTES

    def load_buffer(self, round: int, exchange: int, client: str) -> bytes:
        """Return the buffer of an update that lies in a file."""
        return self._store.load_buffer(round, exchange, client)

    def close_exchange(
        self,
        round: int,
        exchange: int,
        state: Packed | None,
        lines: Sequence[str],
        links: StoredLinks,
        with_round: bool,
        accepted: Sequence[str] = (),
    ) -> None:
        """Store what an exchange of these clients' updates came to, as one with its round's own end if that follows."""
        header, buffer = self._stored(_state_frames(state)) if state is not None else (None, None)
        unwritten = self._pending.take_updates()

        def close() -> None:
            self._store.close_exchange(round, exchange, header, buffer, lines, call_all(unwritten), accepted)
            self._put_fact("links", links)

        if with_round:
            self._closing = close
        else:
            self._pending.put(close)
        self._metrics.put(lines)

    def write_lines(self) -> None:
        """Have the lines of what was closed in `metrics.jsonl`, which people read: the store has them already."""
        self._metrics.flush()

    def close_round(
        self,
        status: Literal["completed", "failed"],
        round: int,
        reason: str,
        global_hash: str,
        state: Packed | None,
        accepted: Sequence[str],
        lines: Sequence[str],
    ) -> None:
        """Store how a round ended.

        `state` is the server half after a completed one, and the last of `lines` the round's own.
        """
        self._pending.flush_updates()
        if status == "completed":
            self._start_state = state
        *rows, line = lines
        record = RoundRecord(round, status, reason, global_hash, time.time(), line)
        closing, self._closing = self._closing, None

        def close() -> None:
            if closing is not None:
                closing()
            self._store.close_round(record, accepted, rows)

        self._pending.put(close)
        self._metrics.put(lines)

    def write_histogram(self, spec: RunSpec, announced: Mapping[str, Ready]) -> None:
        """Write how many samples of each class each client announced, if that has changed."""
        told = sorted(announced.items())
        counts = {client: {"train": ready.class_counts, "test": ready.test_counts} for client, ready in told}
        if counts != self._histogram:
            is_written = self.folder.write_histogram({"classes": spec.classes, "clients": counts})
            self._histogram = counts if is_written else {}

    def finish(
        self,
        ledger: Ledger,
        versions: Mapping[str, str],
        peaks: Mapping[str, int | None],
        outcome: str,
        reason: str,
    ) -> None:
        """Write summary and global arrays, those with which the last completed round ended.

        Args:
            ledger: the run's accounts.
            versions: what ran.
            peaks: the largest peaks of memory, under their names in the summary.
            outcome: `finished`, `failed` or `interrupted`.
            reason: why, for people; nothing where that says itself.
        """
        from models.checkpoint import write

        if self._start_state is not None:
            write(self.folder.global_path, unpack(self._start_state).arrays)
        self._pending.flush()
        names = {**self._peaks, **peaks}
        known = {name: max(peaks.get(name) or 0, self._peaks.get(name) or 0) or None for name in names}
        self._put_fact("links", ledger.links_at_leaving())
        marks = {"batched": True} if self.is_batched else {}
        self.summary = {**ledger.summary(self.mode, known, versions), **marks, "outcome": outcome, "reason": reason}
        self.folder.write_summary(self.summary)


def _state_frames(state: Packed) -> Frames:
    return encode(commands.Begin({}, "", False, 0), state, PIPE_BYTES)
