"""What waits to be written to a transport of asyncio.

It waits where it lies, and is given over little by little: asyncio copies what does not go at once.
"""

from __future__ import annotations

import asyncio
from collections import deque

from wire.tensors import Buffer

WRITE_BYTES = 256 * 1024
"""So much is given to asyncio at a time."""


class Outbox:
    """Pieces in their order, also before there is a transport; they must not change until they are written."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[memoryview] = deque()
        self._is_closed = False
        self._is_held = False
        self._through = asyncio.Event()
        self._through.set()

    def open(self, transport: asyncio.Transport) -> None:
        """Write to this transport from now on, whose protocol calls `hold` and `go_on`."""
        transport.set_write_buffer_limits(0)
        self._transport = transport
        self._write()

    def put(self, piece: Buffer) -> None:
        """Write a piece when its turn comes."""
        if not self._is_closed:
            self._waiting.append(memoryview(piece))
            self._write()

    async def drain(self) -> None:
        """Wait until nothing waits any more, or never will."""
        await self._through.wait()

    def hold(self) -> None:
        """Write nothing until further notice."""
        self._is_held = True
        self._through.clear()

    def go_on(self) -> None:
        """Write again."""
        self._is_held = False
        self._write()

    def close(self) -> None:
        """Write nothing more."""
        self._is_closed = True
        self._waiting.clear()
        self._through.set()

    def _write(self) -> None:
        while self._waiting and self._transport is not None and not self._is_held:
            piece = self._waiting.popleft()
            if len(piece) > WRITE_BYTES:
                self._waiting.appendleft(piece[WRITE_BYTES:])
            self._transport.write(piece[:WRITE_BYTES])
        if self._waiting:
            self._through.clear()
        elif not self._is_held:
            self._through.set()
