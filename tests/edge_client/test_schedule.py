"""When a device may train; hooks are real commands, the clock is not real."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from edge_client.config import ScheduleSection
from edge_client.schedule import Schedule


class Device:
    """A schedule with a clock that is set by hand, and all that it told."""

    def __init__(self, clock: str = "12:00", **settings: object) -> None:
        self.clock = clock
        self.told: list[str] = []
        self.schedule = Schedule(ScheduleSection(**settings), self.told.append, self._now)  # type: ignore[arg-type]

    def _now(self) -> time.struct_time:
        return time.strptime(self.clock, "%H:%M")

    def look(self, clock: str = "") -> str:
        self.clock = clock or self.clock
        self.schedule.look()
        return self.told[-1]

    def watch(self, num_answers: int) -> list[str]:
        """Watch until it has told so many times."""

        async def run() -> None:
            watching = asyncio.create_task(self.schedule.watch())
            for _ in range(1000):
                if len(self.told) >= num_answers or watching.done():
                    break
                await asyncio.sleep(0.01)
            watching.cancel()
            await asyncio.wait([watching])

        asyncio.run(run())
        return self.told[:num_answers]


def test_without_windows_and_hook_there_is_nothing_to_wait_for() -> None:
    assert Device().look() == ""


def test_outside_of_all_windows_it_waits_whatever_way_the_clock_goes() -> None:
    device = Device(windows=["22:00-06:00", "12:00-13:00"])
    assert device.look("12:59") == ""
    assert device.look("13:00") == "[schedule] windows = 22:00-06:00, 12:00-13:00; it was 13:00 when this began"
    assert device.look("23:00") == ""
    assert device.look("21:00") == "[schedule] windows = 22:00-06:00, 12:00-13:00; it was 21:00 when this began"


def test_a_wait_says_the_same_as_long_as_it_lasts() -> None:
    device = Device(windows=["22:00-06:00"])
    told = [device.look(clock) for clock in ("12:00", "12:01", "21:59")]
    assert told == ["[schedule] windows = 22:00-06:00; it was 12:00 when this began"] * 3


def test_paused_by_hand_it_waits_also_inside_a_window() -> None:
    device = Device("23:00", windows=["22:00-06:00"])
    device.schedule.pause(True)
    assert device.told == ["SIGUSR2, as SIGUSR1 paused it"]
    device.schedule.pause(False)
    assert device.told[-1] == ""


@pytest.mark.parametrize(
    ("hook", "answer"),
    [
        ("true", ""),
        ("true \0", "[schedule] hook, which cannot be run: embedded null byte"),
        ("sh -c 'exit 3'", "[schedule] hook, which says no (exit code 3)"),
        ("/no/such/command", "[schedule] hook, which cannot be run: [Errno 2] No such file or directory"),
        ("sleep 60", "[schedule] hook, which took longer than hook_timeout_s = 0.2"),
    ],
)
def test_a_hook_is_asked_and_bounded(hook: str, answer: str) -> None:
    asked, told = Device(hook=hook, hook_timeout_s=0.2).watch(2)
    assert asked == "[schedule] hook, which was not asked yet"
    assert told.partition(": '")[0] == answer


def test_a_hook_is_asked_again_and_not_outside_of_the_windows(tmp_path: Path) -> None:
    count = tmp_path / "count"
    hook = f"sh -c 'echo asked >> {count}'"
    device = Device(windows=["22:00-06:00"], hook=hook, hook_every_s=0.01)
    assert device.watch(3) == ["[schedule] windows = 22:00-06:00; it was 12:00 when this began"] * 3
    assert not count.exists()
    device.clock, device.told[:] = "23:00", []
    device.watch(6)
    assert count.read_text().count("asked") >= 2


def test_nothing_is_left_of_a_hook_when_the_daemon_ends(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    device = Device(hook=f"sh -c 'echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 60 & wait'")

    async def run() -> None:
        watching = asyncio.create_task(device.schedule.watch())
        for _ in range(1000):
            if pid.exists():
                break
            await asyncio.sleep(0.01)
        watching.cancel()
        await asyncio.wait([watching])

    asyncio.run(run())
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
