"""A daemon and its child: frames both ways, and each end notices when the other one is gone."""

from __future__ import annotations

import asyncio
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import psutil
import pytest

from wire.limits import PIPE_BYTES
from wire.sockets.child import KILL_AFTER_S, LAST_LINES, Child
from wire.sockets.memory import peak_rss_bytes

WAIT_S = 10.0

Frames = list[bytes | memoryview]


class Parent:
    """A child with all that it said."""

    def __init__(self, folder: Path, python: str) -> None:
        self.python = python
        self.came: list[Frames] = []
        self.gone: list[str] = []
        self.child = Child(self.came.append, self.gone.append, folder / "child.log")

    async def start(self, behaviour: str) -> None:
        """Start the child."""
        await self.child.start("its.module", (behaviour,), {"OMP_NUM_THREADS": "3"})

    async def answer(self) -> Frames:
        """Return the next message."""
        before = len(self.came)
        await until(lambda: len(self.came) > before)
        return self.came[before]

    async def seen_gone(self) -> str:
        """Return how the child ended."""
        await until(lambda: self.gone)
        return self.gone[0]


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parent:
    """Have the stand-in started where a daemon starts `python -I -m module`."""
    python, program = sys.executable, tmp_path / "python"
    script = Path(__file__).with_name("stand_in.py")
    root = Path(__file__).parents[3]
    command = f"PYTHONPATH={shlex.quote(str(root))} exec {shlex.quote(python)} {shlex.quote(str(script))}"
    program.write_text(f'#!/bin/sh\n{command} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return Parent(tmp_path, python)


async def until(found: Callable[[], object]) -> None:
    """Wait until something is true; fails if it never is."""

    async def poll() -> None:
        while not found():
            await asyncio.sleep(0.001)

    await asyncio.wait_for(poll(), WAIT_S)


def run(parent: Parent, behaviour: str, main: Callable[[], Coroutine[None, None, None]]) -> None:
    """Start the child, run a test, and see the child end."""

    async def whole() -> None:
        await parent.start(behaviour)
        try:
            await main()
        finally:
            await parent.child.stop()
            assert parent.child.pid is not None
            assert not is_running(parent.child.pid)

    asyncio.run(whole())


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_it_is_started_isolated_in_a_session_of_its_own(parent: Parent) -> None:
    async def main() -> None:
        await until(lambda: parent.came)
        threads, leads_session, _, *arguments = bytes(parent.came[0][0]).decode().splitlines()
        assert (threads, leads_session) == ("3", "True")
        assert arguments[:4] == ["-I", "-m", "its.module", "--pipe"]
        assert arguments[5:] == ["report"]

    run(parent, "report", main)


@pytest.mark.parametrize(
    "frames", [[b"x"], [b""], [b"header", b""], [b"header", b"buffer"], [b"header", bytes(range(256)) * 40_000]]
)
def test_frames_go_both_ways_unchanged(parent: Parent, frames: Frames) -> None:
    async def main() -> None:
        parent.child.send([memoryview(frame) for frame in frames])
        assert await parent.answer() == frames

    run(parent, "echo", main)


def test_what_is_sent_before_the_start_arrives_first(parent: Parent) -> None:
    sent = [[b"%d" % number] for number in range(100)]
    for frames in sent[:50]:
        parent.child.send(frames)

    async def main() -> None:
        for frames in sent[50:]:
            parent.child.send(frames)
        await until(lambda: len(parent.came) == len(sent))
        assert parent.came == sent

    run(parent, "echo", main)


def test_a_child_can_tell_whether_more_has_come(parent: Parent) -> None:
    for content in (b"a", b"b", b"c"):
        parent.child.send([content])

    async def main() -> None:
        await until(lambda: len(parent.came) == 3)
        assert [frames[1] for frames in parent.came] == [b"more", b"more", b"last"]

    run(parent, "peek", main)


def test_drain_waits_for_a_child_that_is_behind(parent: Parent) -> None:
    async def main() -> None:
        await asyncio.wait_for(parent.child.drain(), WAIT_S)
        parent.child.send([bytes(10_000_000)])
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(parent.child.drain(), 0.1)

    run(parent, "deaf", main)


def test_drain_does_not_wait_for_a_child_that_is_gone(parent: Parent) -> None:
    async def main() -> None:
        parent.child.send([bytes(10_000_000)])
        parent.child.kill()
        await asyncio.wait_for(parent.child.drain(), WAIT_S)
        parent.child.send([b"into the void"])

    run(parent, "deaf", main)


@pytest.mark.parametrize(
    ("behaviour", "how"),
    [
        ("fail", "ended with exit code 7; the last lines of child.log since it was started:\nwhat went wrong"),
        ("kill yourself", "ended with signal SIGKILL"),
    ],
)
def test_its_end_is_reported_once_with_what_it_said_and_nobody_before(
    parent: Parent, tmp_path: Path, behaviour: str, how: str
) -> None:
    (tmp_path / "child.log").write_text("yesterday's error\n")

    async def main() -> None:
        assert await parent.seen_gone() == how

    run(parent, behaviour, main)
    assert len(parent.gone) == 1


def test_a_child_that_announces_more_than_a_message_may_hold_is_ended(parent: Parent) -> None:
    async def main() -> None:
        told = f"expected a message of up to {PIPE_BYTES} bytes, got one of {2 * (2**32 - 1)}"
        assert await parent.seen_gone() == f"was ended, as what it sent is no message: {told}"

    run(parent, "announce too much", main)
    assert len(parent.gone) == 1


def test_large_and_small_messages_arrive_in_order_at_a_child_that_is_behind(parent: Parent) -> None:
    sent: list[Frames] = [[b"%d" % number, bytes([number]) * (number % 2 * 3_000_000)] for number in range(8)]

    async def main() -> None:
        await parent.child.send_all(sent[:4])
        for frames in sent[4:]:
            parent.child.send(frames)
        await until(lambda: len(parent.came) == len(sent))
        assert parent.came == sent
        await asyncio.wait_for(parent.child.drain(), WAIT_S)

    run(parent, "echo", main)


def test_nobody_waits_for_a_child_that_is_stopped_before_it_has_taken_all(parent: Parent) -> None:
    parent.child.send([b"early"])

    async def main() -> None:
        await parent.child.stop()
        await asyncio.wait_for(parent.child.drain(), WAIT_S)

    asyncio.run(main())


def test_a_stopped_child_is_not_reported(parent: Parent) -> None:
    async def main() -> None:
        parent.child.send([b"x"])
        await parent.answer()

    run(parent, "echo", main)
    assert parent.gone == []


def test_a_child_that_holds_the_gil_is_stopped_in_time(parent: Parent) -> None:
    async def main() -> None:
        await until(lambda: parent.came)

    started = time.monotonic()
    run(parent, "busy", main)
    assert time.monotonic() - started < KILL_AFTER_S + 2.0


@pytest.fixture
def _is_long_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that does not end a process within the time that is waited."""
    real = subprocess.Popen.wait

    def wait(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        if timeout is not None:
            raise subprocess.TimeoutExpired(process.args, timeout)
        return real(process)

    monkeypatch.setattr(subprocess.Popen, "wait", wait)


def reap(parent: Parent) -> None:
    assert parent.child._process is not None
    parent.child._process.wait()


@pytest.mark.usefixtures("_is_long_gone")
def test_the_end_of_one_that_takes_long_to_be_gone_is_reported(parent: Parent) -> None:
    async def main() -> None:
        await parent.start("echo")
        assert parent.child.pid is not None
        psutil.Process(parent.child.pid).kill()
        assert f"was not gone {KILL_AFTER_S:g} s after it was killed" in await parent.seen_gone()

    asyncio.run(main())
    reap(parent)


@pytest.mark.usefixtures("_is_long_gone")
def test_nobody_waits_for_one_that_takes_long_to_be_gone(parent: Parent) -> None:
    async def main() -> None:
        await parent.start("busy")
        await until(lambda: parent.came)
        await parent.child.stop()

    asyncio.run(main())
    reap(parent)
    assert parent.gone == []


def test_its_last_lines_are_the_last_ones(parent: Parent, tmp_path: Path) -> None:
    assert parent.child.last_lines() == ""
    (tmp_path / "child.log").write_text("".join(f"line {number}\n" for number in range(5000)))
    lines = parent.child.last_lines().splitlines()
    assert lines == [f"line {number}" for number in range(5000 - LAST_LINES, 5000)]


def test_one_that_was_given_away_is_quoted_from_its_new_log(parent: Parent, tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("yesterday's error\n")
    parent.child.belong_to(parent.came.append, parent.gone.append, log)
    assert parent.child.last_lines() == ""
    with log.open("a") as file:
        file.write("today's error\n")
    assert parent.child.last_lines() == "today's error"


def test_peak_memory_is_that_of_the_process_alone(parent: Parent) -> None:
    ballast = bytearray(200_000_000)

    async def main() -> None:
        parent.child.send([b"x"])
        await parent.answer()
        own, its = peak_rss_bytes(), peak_rss_bytes(parent.child.pid)
        assert own is not None
        assert its is not None
        assert 5e6 < its < 100e6 < own

    run(parent, "echo", main)
    assert len(ballast) == 200_000_000
    assert peak_rss_bytes(2**30) is None


def test_a_child_that_is_stopped_before_its_start_is_not_started(parent: Parent) -> None:
    async def main() -> None:
        await parent.child.stop()
        await parent.start("echo")
        if parent.child.pid is not None:
            await parent.child.stop()

    asyncio.run(main())
    assert parent.child.pid is None


DAEMON = """
import asyncio, sys
from pathlib import Path
from wire.limits import PIPE_BYTES
from wire.sockets.child import Child

async def main():
    child = Child(lambda frames: print(child.pid, flush=True), print, Path(sys.argv[2]))
    sys.executable = sys.argv[1]
    await child.start("its.module", (sys.argv[3],), {})
    child.send([b"x"])
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("behaviour", ["echo", "busy"])
def test_a_child_does_not_outlive_its_daemon(parent: Parent, tmp_path: Path, behaviour: str) -> None:
    """Whether it waits for the pipe or never looks at it."""
    command = [parent.python, "-c", DAEMON, sys.executable, str(tmp_path / "child.log"), behaviour]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]) as daemon:
        assert daemon.stdout is not None
        pid = int(daemon.stdout.readline())
        assert is_running(pid)
        daemon.send_signal(signal.SIGKILL)
    asyncio.run(until(lambda: not is_running(pid)))


def test_a_halted_child_stands_still_from_its_start_until_it_may_go_on(parent: Parent) -> None:
    async def run() -> None:
        parent.child.halt(True)
        parent.child.send([b"echo"])
        await parent.start("echo")
        process = psutil.Process(parent.child.pid)
        await until(lambda: process.status() == psutil.STATUS_STOPPED)
        assert parent.came == []
        parent.child.halt(False)
        await until(lambda: parent.came)
        parent.child.halt(True)
        await until(lambda: process.status() == psutil.STATUS_STOPPED)
        await parent.child.stop()
        assert not process.is_running()

    asyncio.run(run())
