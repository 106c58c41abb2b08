"""The desk: orders in, answers out, and nobody but the owner of its folder."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import stat
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from coordinator import client_api
from coordinator.cli import main
from coordinator.service.desk import Desk
from coordinator.service.orders import LENGTH, SOCKET, Cancel, Done, Runs, RunState, Submit, from_bytes, length_of
from models.spec import ConfigError, NoSpaceError
from wire.errors import DecodeError
from wire.exit_codes import ExitCode
from wire.limits import MAX_HEADER_BYTES
from wire.messages import Message


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is short enough for a socket."""
    return tmp_path_factory.mktemp("desk")


@contextlib.asynccontextmanager
async def opened(folder: Path, carry_out: Callable[[Message], Coroutine[Any, Any, Message]]) -> AsyncIterator[Desk]:
    desk = Desk(folder, carry_out)
    await desk.open()
    try:
        yield desk
    finally:
        desk.close()


def answered(folder: Path, answer: Message | Exception, ask: Callable[[], Any]) -> tuple[Any, list[Message]]:
    """Return what asking comes to at a desk that gives this answer, and the orders that came in."""
    orders: list[Message] = []

    async def carry_out(order: Message) -> Message:
        orders.append(order)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def both() -> Any:
        async with opened(folder, carry_out):
            return await asyncio.to_thread(ask)

    return asyncio.run(both()), orders


def test_an_order_is_carried_out_and_answered(folder: Path) -> None:
    text = '[run]\nseed = 3\n[data]\nclasses = ["Zürich"]\n'
    (folder / "run.toml").write_text(text, encoding="utf-8")
    told, orders = answered(folder, Done("run-1"), lambda: client_api.submit(folder / "run.toml", ["a.b=1"], folder))
    assert told == "run-1"
    tables: dict[str, dict[str, Any]] = {"run": {"seed": 3}, "data": {"classes": ["Zürich"]}}
    assert orders == [Submit(tables, ["a.b=1"], "run.toml with --set")]


def test_runs_come_back_as_they_stand(folder: Path) -> None:
    states = [RunState("a", "/a", "m", "running", "", 3, 10, ["x"], "waiting"), RunState("b", "/b", "m", "queued")]
    assert answered(folder, Runs(states), lambda: client_api.runs(folder))[0] == states


def test_a_refusal_is_the_error_that_it_says(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"^run\.toml: no$"):
        answered(folder, ConfigError("run.toml: no"), lambda: client_api.cancel("a", folder))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), ExitCode.NO_SPACE),
        (NoSpaceError("no room"), ExitCode.NO_SPACE),
        (OSError(errno.EACCES, "Permission denied"), ExitCode.BAD_CONFIG),
    ],
)
def test_what_is_refused_for_want_of_space_ends_a_command_as_such(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: ExitCode
) -> None:
    monkeypatch.setenv("PROTOEDGE_SERVICE", str(folder))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert answered(folder, error, lambda: main(["submit"]))[0] == code


def test_a_fault_is_answered_too_and_told_to_the_event_loop(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match=r"^internal error: KeyError: 'run-1'$"):
        answered(folder, KeyError("run-1"), lambda: client_api.cancel("run-1", folder))
    assert "an order could not be carried out" in caplog.text


def test_an_answer_that_is_too_long_is_refused_by_its_size(folder: Path) -> None:
    with pytest.raises(ConfigError, match="262144"):
        answered(folder, Done("a", "x" * (MAX_HEADER_BYTES + 1)), lambda: client_api.cancel("a", folder))


def test_only_the_owner_may_open_the_socket_and_it_goes_with_the_desk(folder: Path) -> None:
    mode, _ = answered(folder, Done("a"), lambda: stat.S_IMODE((folder / SOCKET).stat().st_mode))
    assert mode == 0o600
    assert not (folder / SOCKET).exists()


def test_what_a_killed_process_left_is_in_nobodys_way(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / SOCKET))
    assert answered(folder, Done("a", "gone"), lambda: client_api.cancel("a", folder)) == ("gone", [Cancel("a")])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (LENGTH.pack(MAX_HEADER_BYTES + 1), "expected at most 262144 bytes"),
        (LENGTH.pack(3) + b"abc", "header"),
        (LENGTH.pack(3) + b"\x92\x01\x90", "no message has the tag 1"),
    ],
)
def test_bytes_that_are_no_order_are_refused_and_the_next_order_is_not(
    folder: Path, content: bytes, expected: str
) -> None:
    def ask() -> tuple[str, str]:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(5)
            peer.connect(str(folder / SOCKET))
            peer.sendall(content)
            said = peer.makefile("rb").read()
        return said.decode("utf-8", "replace"), client_api.cancel("a", folder)

    (said, then), orders = answered(folder, Done("a", "done"), ask)
    assert expected in said
    assert (then, orders) == ("done", [Cancel("a")])


def test_a_folder_whose_path_is_too_long_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    with pytest.raises(ConfigError, match="107 bytes at most"):
        answered(folder, Done("a"), lambda: None)


def test_where_no_service_is_the_error_says_how_to_have_one(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"control\.sock: expected a service that runs there \(coordinator serve\)"):
        client_api.runs(folder)


def test_a_message_of_any_other_kind_is_no_answer() -> None:
    with pytest.raises(DecodeError, match="no message"):
        from_bytes(b"\x92\x01\x90", {})
    assert length_of(LENGTH.pack(7)) == 7


def test_a_desk_that_was_moved_leaves_the_one_that_is_there_now(folder: Path) -> None:
    async def carry_out(order: Message) -> Message:
        return Done("run")

    async def main() -> None:
        async with opened(folder, carry_out) as desk:
            desk.path.rename(folder / "moved")
            other = Desk(folder, carry_out)
            await other.open()
            desk.close()
            assert other.path.is_socket()
            other.close()
            assert not other.path.exists()

    asyncio.run(main())
