"""The daemon between its clients and the rounds, with lists in place of the port and of the server half's process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import socket
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator import daemon
from coordinator.aggregator.half import Constant
from coordinator.clients.door import Arrival, OnArrival
from coordinator.config import load
from coordinator.display import Display
from coordinator.store.record import RunRecord
from coordinator.store.run_folder import RunFolder
from wire.encoding import Frames, Packed, decode, pack
from wire.exit_codes import ExitCode
from wire.limits import DEFAULT_MAX_MESSAGE_BYTES, MAX_MESSAGE_BYTES
from wire.messages import Ack, Goodbye, Grant, Hello, Message, Offer, Ready, Refusal, Task, Update, Welcome
from wire.messages import Constant as ConstantMessage
from wire.payload import EMPTY, Payload
from wire.sockets.systemd import READY, STOPPING, ServiceManager
from wire.sockets.tcp import Counters
from wire.version import PROTOCOL_VERSION

WAIT_S = 10.0
NAMES = [f"client-{index}" for index in range(6)]
COUNTS = [1] * 10


class Half:
    """A server half that has nothing to say but these constants."""

    global_hash = ""
    versions: dict[str, str] = {}
    state = pid = None
    constants: list[Constant] = []

    def __init__(self, *_: Any) -> None:
        pass

    async def begin(self, state: Packed | None, num_train: int = 0, wants_constants: bool = False) -> list[Constant]:
        return self.constants

    async def configure(self, round: int, exchange: str) -> Packed:
        return Packed([], {}, b"")

    async def stop(self) -> None:
        pass


class Clients:
    """The port of a run, and all its clients, each by the route of its name."""

    address = "nowhere"

    def __init__(self) -> None:
        self.heard: dict[str, list[Message]] = {name: [] for name in NAMES}
        self.received_bytes: dict[bytes, int] = {}
        self.run = 0

    def open(self, on_arrival: OnArrival, *_: Any) -> Clients:
        self._on_arrival = on_arrival
        return self

    def counters(self, route: bytes) -> Counters | None:
        return Counters(0, self.received_bytes.get(route, 0), 0, 0.0, 0, 0, 0.0)

    def send(self, route: bytes, frames: Frames) -> bool:
        message, _ = decode(frames, max_bytes=MAX_MESSAGE_BYTES)
        self.heard[route.decode()].append(message)
        return True

    def close(self) -> None:
        pass

    def say(self, name: str, message: Message, packed: Packed | None = None) -> None:
        self._on_arrival(Arrival(name.encode(), None, message, packed, [b"", b""], None))

    async def get_ready(self) -> None:
        """Let all get ready."""
        for name in NAMES:
            self.say(name, Hello((PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor), name, 1))
        self.run = (await self.expect(NAMES[0], Welcome)).run
        for name in NAMES:
            self.say(name, Ready(self.run, 10, 0, COUNTS, 50, 0, 0))

    async def join(self) -> None:
        """Let all get ready, and see each get its task."""
        await self.get_ready()
        for name in NAMES:
            await self.expect(name, Task)

    async def expect(self, name: str, kind: type[Message]) -> Any:
        """Return the first message of this kind that a client hears, in time."""
        deadline = asyncio.get_running_loop().time() + WAIT_S
        while asyncio.get_running_loop().time() < deadline:
            for message in self.heard[name]:
                if isinstance(message, kind):
                    return message
            await asyncio.sleep(0.01)
        raise AssertionError(f"{name} heard no {kind.__name__}")


Play = Callable[[Clients, daemon.Coordinator], Coroutine[Any, Any, None]]


def played(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    play: Play,
    *settings: str,
    systemd: ServiceManager | None = None,
    join: Callable[[Clients], Coroutine[Any, Any, None]] = Clients.join,
) -> dict[str, Any]:
    """Play with a run and its clients, who join it first, end it and return its summary."""
    monkeypatch.setattr(daemon, "ServerHalf", Half)
    monkeypatch.setattr(daemon, "FAREWELL_S", 0.0)
    fixed = [f"run.dir={tmp_path}", "run.store=memory", f"data.num_clients={len(NAMES)}", "round.min_clients=6"]
    config = load(None, [*fixed, "round.max_failed_rounds=100", *settings])
    folder = RunFolder.create(config, "run-1")

    async def on_loop() -> None:
        with contextlib.closing(
            RunRecord(folder, config, "serve", Path(), Display(io.StringIO(), False), None)
        ) as record:
            clients = Clients()
            spec = config.spec("run-1", [str(label) for label in range(len(COUNTS))])
            coordinator = daemon.Coordinator(config, spec, Path(), record, clients.open, systemd or ServiceManager({}))
            running = asyncio.create_task(coordinator.run(None))
            await asyncio.sleep(0)  # it has opened its port
            try:
                await join(clients)
                await play(clients, coordinator)
            finally:
                coordinator.end(ExitCode.INTERRUPTED, "played")
                await running

    asyncio.run(on_loop())
    return folder.read_summary()


def test_a_constant_that_the_settings_allow_is_sent_and_counted_however_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = DEFAULT_MAX_MESSAGE_BYTES + 1
    packed = pack(Payload.of_state({}))._replace(buffer=bytes(size))
    monkeypatch.setattr(Half, "constants", [Constant("large", "digest", packed)])

    async def play(clients: Clients, _: daemon.Coordinator) -> None:
        await clients.expect(NAMES[5], ConstantMessage)

    summary = played(tmp_path, monkeypatch, play, f"transport.max_message_bytes={size + 1000}")
    assert summary["init"]["encoded_bytes"] > len(NAMES) * size


def test_who_still_waits_for_a_grant_when_the_exchange_closes_is_refused_and_never_granted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = NAMES[4]

    async def play(clients: Clients, coordinator: daemon.Coordinator) -> None:
        for name in NAMES[:5]:
            clients.say(name, Offer(clients.run, 1, 0, 5_000_000))
        await clients.expect(NAMES[3], Grant)
        refusal = await clients.expect(last, Refusal)
        assert (refusal.code, refusal.permanent) == ("stale", False)
        assert (refusal.run, refusal.round, refusal.exchange) == (clients.run, 1, 1)
        clients.say(NAMES[0], Goodbye(""))
        assert not any(isinstance(message, Grant) for message in clients.heard[last])

    summary = played(tmp_path, monkeypatch, play, "round.deadline_s=0.3")
    assert summary["updates"]["stale"] == 1


def test_an_update_that_comes_again_after_a_later_task_is_acknowledged_and_counted_as_no_late_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(clients: Clients, coordinator: daemon.Coordinator) -> None:
        monkeypatch.setattr(coordinator._conductor, "misfit", lambda *_: None)
        clients.say(NAMES[0], Update(clients.run, 1, 0), pack(EMPTY))
        await clients.expect(NAMES[0], Ack)
        while coordinator.where[0] == 1:  # no quorum
            await asyncio.sleep(0.01)
        for name in NAMES[:2]:
            clients.heard[name].clear()
            clients.say(name, Update(clients.run, 1, 0), pack(EMPTY))
        assert (await clients.expect(NAMES[0], Refusal)).code == "duplicate"
        assert await clients.expect(NAMES[0], Ack) == Ack(clients.run, 1, 0)
        assert (await clients.expect(NAMES[1], Refusal)).code == "stale"

    updates = played(tmp_path, monkeypatch, play, "round.deadline_s=0.5", "round.max_exchange_s=0.5")["updates"]
    assert updates == {"accepted": 1, "duplicate": 1, "stale": 1, "refused": 0}


def test_below_the_quorum_a_message_that_moves_puts_the_deadline_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(clients: Clients, coordinator: daemon.Coordinator) -> None:
        for step in range(40):
            clients.received_bytes[b"client-2"] = 4096 * step
            await asyncio.sleep(0.02)
        assert coordinator.where[0] == 1

    played(tmp_path, monkeypatch, play, "round.deadline_s=0.5")


def test_a_round_whose_updates_are_all_refused_fails_at_once_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(clients: Clients, coordinator: daemon.Coordinator) -> None:
        for name in NAMES:
            assert coordinator.where[0] == 1
            clients.say(name, Update(clients.run, 1, 0), Packed([], {}, b""))
            refusal = await clients.expect(name, Refusal)
            assert (refusal.code, refusal.permanent) == ("malformed", False)
        while coordinator.where[0] == 1:
            await asyncio.sleep(0.01)

    summary = played(tmp_path, monkeypatch, play)
    assert (summary["rounds_failed"], summary["updates"]["refused"]) == (1, len(NAMES))


def test_a_round_waits_for_a_client_whose_key_was_revoked_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(clients: Clients, coordinator: daemon.Coordinator) -> None:
        coordinator._on_barred(b"client-3", "the key of client-3 was revoked")
        assert "client-2, client-3 (the key of client-3 was revoked), client-4" in coordinator.where[1]

    played(tmp_path, monkeypatch, play)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(ExitCode.FINISHED, "the run's record is not complete: full"), (ExitCode.INTERRUPTED, "stopped")],
)
def test_a_run_that_would_be_finished_but_for_its_figures_is_over_for_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: ExitCode, reason: str
) -> None:
    ended, codes, farewell = [], [], daemon.Coordinator._farewell

    async def heard_farewell(coordinator: daemon.Coordinator, *given: Any) -> ExitCode:
        codes.append(await farewell(coordinator, *given))
        return codes[-1]

    def write_summary(folder: RunFolder, summary: Any) -> None:
        raise OSError("full")

    async def play(_: Clients, coordinator: daemon.Coordinator) -> None:
        ended.append(coordinator)
        monkeypatch.setattr(RunFolder, "write_summary", write_summary)
        monkeypatch.setattr(daemon.Coordinator, "_farewell", heard_farewell)
        coordinator.end(code, "stopped")

    assert played(tmp_path, monkeypatch, play) == {}
    assert ended[0].reason == reason
    assert codes == [ExitCode.INTERRUPTED if code == ExitCode.FINISHED else code]


def test_a_run_whose_samples_cannot_be_written_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_histogram(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "histogram.json")

    async def play(_: Clients, coordinator: daemon.Coordinator) -> None:
        await asyncio.wait_for(until_over(coordinator), WAIT_S)

    async def until_over(coordinator: daemon.Coordinator) -> None:
        while not coordinator.is_over:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(RunRecord, "write_histogram", write_histogram)
    summary = played(tmp_path, monkeypatch, play, join=Clients.get_ready)
    told = "cannot write: histogram.json: Permission denied; make the folder writable"
    assert (summary["outcome"], summary["reason"]) == ("interrupted", told)


def test_the_service_manager_that_it_is_given_hears_of_it_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(clients: Clients, _: daemon.Coordinator) -> None:
        assert heard(given) == [READY]

    with listening(tmp_path / "given") as given, listening(tmp_path / "other") as other:
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "other"))
        played(tmp_path, monkeypatch, play, systemd=ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "given")}))
        assert (heard(given), heard(other)) == ([STOPPING], [])


@contextlib.contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.setblocking(False)
        yield manager


def heard(manager: socket.socket) -> list[str]:
    found = []
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(manager.recv(256).decode())
    return found
