"""What the tests of the two ends share: routers and dealers on 127.0.0.1, and all that came to either."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

import zmq

from wire.sockets.endpoint import Context, Parts
from wire.sockets.tcp import Counters
from wire.sockets.zeromq import ANYONE, Dealer, LinkEnd, Router

WAIT_S = 10.0

LIMIT = 1 << 20

Frames = list[bytes]


class Hub:
    """A router, the dealers that a test asks for, and all that came to either."""

    def __init__(self, bench: Bench, address: str) -> None:
        self.came: list[tuple[bytes, Frames]] = []
        self.answers: list[Frames] = []
        self.lost: list[str] = []
        self.echoes = False
        self.chokes_on: bytes | None = None
        self._bench = bench
        self.failed: list[str] = []
        self.ended: dict[bytes, Counters | None] = {}
        self.router = bench.keep(Router(bench.context, address, LIMIT, self._take, self._take_failure, self._take_end))

    def dealer(self, address: str = "") -> Dealer:
        """Connect to the router, or elsewhere."""
        address = address or self.router.address
        return self._bench.keep(Dealer(self._bench.context, address, LIMIT, self._take_answer, self._take_loss))

    async def route_of(self, dealer: Dealer) -> bytes:
        """Have a dealer say something, and return the route that it came by."""
        before = len(self.came)
        dealer.send([b"hello"])
        await until(lambda: len(self.came) > before)
        return self.came[-1][0]

    def _take_loss(self, reason: str, end: LinkEnd) -> None:
        assert end is LinkEnd.GONE
        self.lost.append(reason)

    def _take_failure(self, kind: str, text: str) -> None:
        self.failed.append(kind)

    def _take_end(self, route: bytes, counters: Counters | None) -> None:
        self.ended[route] = counters

    def _take(self, route: bytes, key: str, parts: Parts) -> None:
        assert key == ANYONE
        frames = list(map(bytes, parts))
        if frames == [self.chokes_on]:
            raise ValueError("cannot swallow this")
        self.came.append((route, frames))
        if self.echoes:
            assert self.router.send(route, frames)

    def _take_answer(self, parts: Parts) -> None:
        self.answers.append(list(map(bytes, parts)))


class Bench:
    """Where a test sets up its hubs; all their ends are closed at its end."""

    def __init__(self) -> None:
        self.context: Context = zmq.Context(io_threads=1)
        self._ends: list[Router | Dealer] = []

    def hub(self, address: str = "127.0.0.1:0") -> Hub:
        """Make a router."""
        return Hub(self, address)

    def keep(self, end: EndT) -> EndT:
        """Close this one at the end."""
        self._ends.append(end)
        return end

    def run(self, main: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run a test's coroutine."""
        try:
            asyncio.run(self._main(main))
        finally:
            self.context.destroy(linger=0)

    async def _main(self, main: Callable[[], Coroutine[None, None, None]]) -> None:
        try:
            await main()
        finally:
            for end in self._ends:
                end.close()


EndT = TypeVar("EndT", Router, Dealer)


async def until(found: Callable[[], object]) -> None:
    """Wait until something is true; fails if it never is."""

    async def poll() -> None:
        while not found():
            await asyncio.sleep(0.001)

    await asyncio.wait_for(poll(), WAIT_S)
