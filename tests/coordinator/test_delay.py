"""What is due after a while, unless it is put off or ends before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coordinator.delay import Delay

AFTER_S = 0.2


def rung(use: Callable[[Delay], Awaitable[None]]) -> list[float]:
    """When it was due, in seconds since the beginning of a time that is long enough for all of it."""

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        began_at, at = loop.time(), []
        await use(Delay(AFTER_S, lambda: at.append(loop.time() - began_at)))
        await asyncio.sleep(3 * AFTER_S)
        return at

    return asyncio.run(main())


def test_it_is_due_once_and_not_before_the_while_is_over() -> None:
    async def use(delay: Delay) -> None:
        delay.begin()
        await asyncio.sleep(AFTER_S / 2)
        delay.begin()

    (at,) = rung(use)
    assert at >= AFTER_S


def begun_again(delay: Delay) -> None:
    delay.end()
    delay.begin()


@pytest.mark.parametrize("anew", [Delay.put_off, begun_again])
def test_put_off_or_ended_and_begun_again_it_has_all_its_time_from_then_on(anew: Callable[[Delay], None]) -> None:
    async def use(delay: Delay) -> None:
        delay.begin()
        await asyncio.sleep(AFTER_S / 2)
        anew(delay)

    (at,) = rung(use)
    assert at >= 1.5 * AFTER_S


def test_ended_it_is_not_due() -> None:
    async def use(delay: Delay) -> None:
        delay.begin()
        delay.end()

    assert rung(use) == []


def test_cancelled_it_is_not_due_nor_known_to_the_event_loop() -> None:
    async def use(delay: Delay) -> None:
        delay.begin()
        timer = delay._timer
        assert timer is not None
        delay.cancel()
        assert timer.cancelled()

    assert rung(use) == []
