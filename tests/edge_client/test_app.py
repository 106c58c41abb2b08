"""The daemon itself, around its session: what it does in which order, without a coordinator and without a trainer."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edge_client import session_events as session
from edge_client.app import ClientApp
from edge_client.config import load
from edge_client.sensors import Found
from tests.edge_client.session_driver import READY, task, welcome
from wire.encoding import encode
from wire.messages import Message, Ping, Pong, Progress, Ready, Standby


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
