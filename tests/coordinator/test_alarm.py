"""The one timer of the daemon."""

from __future__ import annotations

import asyncio

from coordinator.alarm import LOOK_EVERY_S, Alarm


class Clock:
    """What is due when, and how often that was asked and came to be."""

    def __init__(self) -> None:
        self.due: list[float] = []
        self.num_asked = 0
        self.num_rung = 0
        self.alarm = Alarm(self._next, self._ring)

    def _next(self) -> float | None:
        self.num_asked += 1
        return min(self.due, default=None)

    def _ring(self) -> None:
        self.num_rung += 1
        self.due.pop(0)


def test_it_rings_for_whatever_is_due_next_until_nothing_is() -> None:
    async def main() -> Clock:
        clock, now = Clock(), asyncio.get_running_loop().time()
        clock.due = [now, now + 0.001, now + 0.002]
        clock.alarm.look()
        while clock.due:
            await asyncio.sleep(0.001)
        return clock

    assert asyncio.run(main()).num_rung == 3


def test_it_looks_once_for_all_that_is_at_hand_and_is_set_anew_only_for_what_is_earlier() -> None:
    async def main() -> None:
        clock, now = Clock(), asyncio.get_running_loop().time()
        clock.due = [now + 100.0]
        for _ in range(5):
            clock.alarm.look()
        await asyncio.sleep(0)
        assert clock.num_asked == 1
        clock.due = [now]
        clock.alarm.look()
        while not clock.num_rung:
            await asyncio.sleep(0.001)

    asyncio.run(main())


def test_of_events_that_follow_fast_most_cost_no_look() -> None:
    async def main() -> tuple[int, float]:
        clock, loop = Clock(), asyncio.get_running_loop()
        clock.due, began_at = [loop.time() + 100.0], loop.time()
        for _ in range(100):
            clock.alarm.look()
            await asyncio.sleep(0)
        clock.due = [loop.time()]
        while not clock.num_rung:
            await asyncio.sleep(0.001)
        return clock.num_asked, loop.time() - began_at

    num_asked, took_s = asyncio.run(main())
    assert 2 <= num_asked <= 2 + took_s / LOOK_EVERY_S


def test_it_does_not_ring_once_it_is_cancelled() -> None:
    async def main() -> Clock:
        clock = Clock()
        clock.due = [asyncio.get_running_loop().time()]
        clock.alarm.look()
        await asyncio.sleep(0)
        clock.alarm.cancel()
        await asyncio.sleep(0.005)
        return clock

    assert asyncio.run(main()).num_rung == 0


def test_one_that_was_cancelled_rings_again_once_it_is_looked() -> None:
    async def main() -> Clock:
        clock = Clock()
        clock.due = [asyncio.get_running_loop().time()]
        clock.alarm.look()
        clock.alarm.cancel()
        clock.alarm.look()
        while clock.due:
            await asyncio.sleep(0.001)
        return clock

    assert asyncio.run(asyncio.wait_for(main(), 5.0)).num_rung == 1
