"""The daemon itself, around its session: what it does in which order, without a coordinator and without a trainer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from edge_client import session_events as session
from edge_client.app import ClientApp
from edge_client.config import load
from edge_client.sensors import Found
from tests.edge_client.session_driver import task, welcome
from wire.encoding import encode, pack
from wire.framing import joined
from wire.messages import Ready, Standby
from wire.payload import EMPTY


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


def test_an_update_is_joined_as_soon_as_a_joined_message_came_on_its_link(tmp_path: Path) -> None:
    sent: list[list[bytes]] = []
    to_peer = SimpleNamespace(send=lambda parts: sent.append(list(parts)), close=lambda: None)

    async def main() -> None:
        with daemon(tmp_path) as app:
            app._dealer, app._uplink = cast("Any", to_peer), [b"header", b"buffer"]
            came = [bytes(frame) for frame in encode(task(), pack(EMPTY))]
            for parts in (came, joined(came, False), came):  # the first as a coordinator of 1.3 sends it
                app._on_message(parts)
                app._send_uplink(session.SendUplink())
            app._open_link(session.OpenLink())
            app._dealer = cast("Any", to_peer)
            app._send_uplink(session.SendUplink())

    asyncio.run(main())
    plain, other = [b"header", b"buffer"], joined([b"header", b"buffer"], False)
    assert sent == [plain, other, other, plain]


def test_a_name_is_looked_up_no_longer_than_its_link_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(host: str) -> list[str]:
        await asyncio.sleep(60.0)
        return []

    async def main() -> bool:
        with daemon(tmp_path) as app:
            app._open_link(session.OpenLink())
            (looking,) = app._handling
            await asyncio.sleep(0)
            app._close_link(session.CloseLink())
            await asyncio.wait([looking], timeout=0.01)
            return looking.cancelled()

    monkeypatch.setattr("edge_client.app.look_up", never)
    assert asyncio.run(main())


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
