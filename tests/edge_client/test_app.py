"""The daemon itself, around its session: what it does in which order, without a coordinator and without a trainer."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edge_client import cli, commands
from edge_client import session_events as session
from edge_client.app import ClientApp
from edge_client.config import load
from edge_client.sensors import Found
from tests.edge_client.session_driver import READY, task, welcome
from wire.encoding import encode
from wire.exit_codes import ExitCode
from wire.messages import Hello, Message, Ping, Pong, Progress, Ready, Standby

DIGESTS = ["a" * 64, "b" * 64]


class Heard:
    """A meter that keeps what it is told in a list."""

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *content: self._done.append(name)


@contextlib.contextmanager
def daemon(folder: Path, *more: str) -> Iterator[ClientApp]:
    """Have one that has begun, on the loop that runs."""
    settings = ["client.id=a", "data.index=0", "coordinator.security=none", f'client.dir="{folder}"', *more]
    app = ClientApp(load(None, settings), folder, None, once=True)
    app._loop = asyncio.get_running_loop()
    app._ended = app._loop.create_future()
    yield app
    app._close_link(session.CloseLink())
    app._context.destroy(linger=0)


def test_a_task_goes_to_the_trainer_before_anything_is_measured(tmp_path: Path) -> None:
    async def main() -> list[str]:
        done: list[str] = []
        with daemon(tmp_path) as app:
            app._trainer = cast("Any", SimpleNamespace(send=lambda frames: done.append("sent")))
            app._meter = cast("Any", Heard(done))
            app._start_task(session.StartTask(task()))
        return done

    assert asyncio.run(main()) == ["sent", "task_came"]


class Broken:
    """A sensor that was there when it was looked for."""

    name, counts, range_j = "broken", False, 0.0

    def read(self) -> float:
        raise OSError("no answer")


def test_the_log_says_which_sensor_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("edge_client.app.find_sensors", lambda: Found([Broken()]))

    async def main() -> None:
        with daemon(tmp_path) as app:
            for round in (1, 2):
                app._meter.task_came(round, 0, 0.0)
            app._meter.stop()

    asyncio.run(main())
    assert capsys.readouterr().err.count("a: the sensor broken does not answer") == 1


def test_run_constants_are_held_until_the_trainer_has_them_on_its_shelf(tmp_path: Path) -> None:
    sent: list[list[bytes]] = []
    trainer = cast("Any", SimpleNamespace(send=sent.append))
    ready = [bytes(frame) for frame in encode(Ready(1, 1, 1, [1], 1, 1, 1))]

    async def main() -> None:
        with daemon(tmp_path) as app:
            app._meter = cast("Any", Heard([]))
            app._start_trainer = lambda: trainer  # type: ignore[method-assign]
            app._incoming = [b"constant"]
            app._pass_constant(session.PassConstant())
            app._restart_trainer(session.RestartTrainer())
            sent.append([b"-"])
            app._task_frames = [b"task"]
            app._on_made(ready)
            app._restart_trainer(session.RestartTrainer())

    asyncio.run(main())
    assert sent == [[b"constant"], [b"-"], [b"task"]]


@pytest.mark.parametrize(
    ("told", "lacking", "is_asked"), [(DIGESTS, DIGESTS[:1], True), (DIGESTS[:1], DIGESTS[1:], False)]
)
def test_a_run_constant_that_is_gone_since_the_hello_told_of_it_is_asked_for_by_another(
    tmp_path: Path, told: list[str], lacking: list[str], is_asked: bool
) -> None:
    shelf = tmp_path / "a" / "constants"
    shelf.mkdir(parents=True)
    for digest in told:
        (shelf / f"{digest}.safetensors").touch()
    hellos: list[list[str]] = []

    async def main() -> None:
        with daemon(tmp_path) as app:
            app._meter = cast("Any", Heard([]))
            app._start_trainer = lambda: app._trainer  # type: ignore[method-assign, assignment, return-value]
            app._send = lambda message: hellos.append(message.constants) if isinstance(message, Hello) else None  # type: ignore[method-assign]
            app._feed(session.Ticked(0.0))
            app._trainer = cast("Any", SimpleNamespace(send=lambda frames: None))
            app._on_message(list(map(bytes, encode(welcome()))))
            for digest in lacking:
                (shelf / f"{digest}.safetensors").unlink(missing_ok=True)
            app._on_made([bytes(frame) for frame in encode(commands.Lacks(lacking))])
            app._feed(session.Ticked(app._loop.time() + 1.0))

    asyncio.run(main())
    assert hellos == [told, DIGESTS[1:]][: 1 + is_asked]


def test_a_run_that_is_left_in_a_task_is_measured_no_more(tmp_path: Path) -> None:
    async def main() -> list[str]:
        done: list[str] = []
        with daemon(tmp_path) as app:
            app._meter = cast("Any", Heard(done))
            app._end_trainer(session.EndTrainer())
        return done

    assert asyncio.run(main()) == ["stop"]


@pytest.mark.parametrize(
    ("message", "may_lapse"), [(Ping(), True), (Progress(7, 1, 0, 1, 2), True), (Pong(), False), (READY, False)]
)
def test_what_the_coordinator_can_do_without_is_not_sent_behind_what_takes_long(
    tmp_path: Path, message: Message, may_lapse: bool
) -> None:
    asked: list[bool] = []
    to_peer = SimpleNamespace(send=lambda frames, may_lapse: asked.append(may_lapse), close=lambda: None)

    async def main() -> None:
        with daemon(tmp_path) as app:
            app._connection = cast("Any", to_peer)
            app._obey(session.Send(message))

    asyncio.run(main())
    assert asked == [may_lapse]


def test_an_uplink_that_finds_the_queue_full_loses_the_link_as_it_is_sent_again_on_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed: list[session.Event] = []

    async def main() -> None:
        with (
            socket.create_server(("127.0.0.1", 0)) as mute,
            daemon(tmp_path, "coordinator.address={}:{}".format(*mute.getsockname())) as app,
        ):
            app._open_link(session.OpenLink())
            monkeypatch.setattr(app, "_feed", fed.append)
            app._uplink = [b"header", b"buffer"]
            for _ in range(100):
                app._send_uplink(session.SendUplink())
            await asyncio.sleep(0.01)

    asyncio.run(main())
    (event,) = fed
    assert isinstance(event, session.LinkLost)
    assert event.reason.endswith("the queue of what is yet to be sent is full")


def test_the_meter_hears_of_runs_and_of_connections_that_have_none(tmp_path: Path) -> None:
    async def main() -> list[str]:
        done: list[str] = []
        with daemon(tmp_path) as app:
            app._meter = cast("Any", Heard(done))
            app._start_trainer = lambda: cast("Any", None)  # type: ignore[method-assign]
            for message in (Standby(15.0, "run-7"), welcome(), welcome(), Standby(15.0)):
                app._on_message(list(map(bytes, encode(message))))
                done.append(".")
        return done

    assert asyncio.run(main()) == [".", "joined", "answered", ".", "answered", ".", "stop", "answered", "."]


@pytest.mark.parametrize(
    ("how", "follows", "told"),
    [
        ("ended with exit code 1;\nMemoryError", session.TrainerFailed, "ran out of {}: MemoryError"),
        ("ended with signal SIGSEGV", session.TrainerDied, "ended with signal SIGSEGV (under {})"),
    ],
)
def test_a_trainer_that_lacked_memory_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, follows: type[Any], told: str
) -> None:
    fed: list[session.Event] = []

    async def main() -> None:
        with daemon(tmp_path, "limits.memory_mib=150") as app:
            monkeypatch.setattr(app, "_feed", fed.append)
            app._on_trainer_gone(how)

    asyncio.run(main())
    (event,) = fed
    assert isinstance(event, follows)
    assert event.reason == told.format("[limits] memory_mib = 150")


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, ExitCode.NO_SPACE), (errno.EACCES, ExitCode.BAD_CONFIG)])
@pytest.mark.parametrize("call", ["os.mkdir", "os.open"])
def test_a_client_that_cannot_begin_for_want_of_space_may_be_started_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    code: ExitCode,
    call: str,
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    (tmp_path / "client.toml").write_text("[client]\nid = 'a'\n[data]\nindex = 0\n[coordinator]\nsecurity = 'none'\n")
    command = ["run", "--config", str(tmp_path / "client.toml"), "--set", f"client.dir={tmp_path}/states"]

    def fail(path: Path, *how: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as full:
        full.setattr(call, fail)
        assert cli.main(command) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"edge-client: [client] dir: expected a folder to write to, {tmp_path}/states/a is none: ")
    assert line.endswith("free some disk space") == (code == ExitCode.NO_SPACE)
