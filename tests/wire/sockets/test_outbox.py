"""What waits to be written: in order, little by little, and nothing after the end."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from wire.sockets.outbox import WRITE_BYTES, Outbox

LARGE = bytes(range(256)) * (3 * WRITE_BYTES // 256) + b"rest"


class Transport:
    """Takes so many pieces before it asks to hold."""

    def __init__(self, outbox: Outbox, takes: int) -> None:
        self._outbox = outbox
        self.takes = takes
        self.written: list[bytes] = []

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == 0

    def write(self, piece: memoryview) -> None:
        self.written.append(bytes(piece))
        self.takes -= 1
        if not self.takes:
            self._outbox.hold()


def opened(outbox: Outbox, takes: int = 100) -> Transport:
    transport = Transport(outbox, takes)
    outbox.open(cast("asyncio.Transport", transport))
    return transport


def is_through(outbox: Outbox) -> bool:
    async def drain() -> bool:
        try:
            await asyncio.wait_for(outbox.drain(), 0.01)
        except asyncio.TimeoutError:
            return False
        return True

    return asyncio.run(drain())


def test_a_large_piece_is_given_over_little_by_little() -> None:
    outbox = Outbox()
    transport = opened(outbox)
    outbox.put(LARGE)
    outbox.put(b"small")
    assert [len(piece) for piece in transport.written] == [WRITE_BYTES] * 3 + [4, 5]
    assert b"".join(transport.written) == LARGE + b"small"
    assert is_through(outbox)


@pytest.mark.parametrize("takes", [1, 2, 3, 4])
def test_what_is_not_taken_waits_and_goes_in_its_order(takes: int) -> None:
    outbox = Outbox()
    transport = opened(outbox, takes)
    outbox.put(LARGE)
    outbox.put(b"small")
    assert len(transport.written) == takes
    assert not is_through(outbox)
    transport.takes = 100
    outbox.go_on()
    assert b"".join(transport.written) == LARGE + b"small"
    assert is_through(outbox)


def test_what_is_put_early_goes_first() -> None:
    outbox = Outbox()
    assert is_through(outbox)
    outbox.put(b"a")
    assert not is_through(outbox)
    transport = opened(outbox)
    outbox.put(b"b")
    assert transport.written == [b"a", b"b"]
    assert is_through(outbox)


def test_after_the_end_nothing_is_written_and_nobody_waits() -> None:
    outbox = Outbox()
    transport = opened(outbox, takes=1)
    outbox.put(LARGE)
    outbox.close()
    outbox.go_on()
    outbox.put(b"small")
    assert len(transport.written) == 1
    assert is_through(outbox)
