"""The door and peers of either minor version: in which form it speaks to each, and hears both."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable, Sequence

import pytest

from coordinator.clients.door import Arrival, Door
from coordinator.clients.turned_away import TurnedAway
from coordinator.config import TransportSection
from wire.encoding import encode, pack
from wire.framing import is_joined, joined, parted
from wire.messages import Hello, Task, Update
from wire.payload import EMPTY
from wire.sockets.endpoint import Context, Parts
from wire.sockets.zeromq import Dealer
from wire.tensors import Buffer
from wire.timing import Timing

TASK, UPDATE = encode(Task(7, 1, 0, 0, 0), pack(EMPTY)), encode(Update(7, 1, 0), pack(EMPTY))
TIMING = Timing(1, 2, 3, 4)
WAIT_S = 10.0


class Peer:
    """A door, and one client that has said hello to it as one of this minor version does."""

    def __init__(self, minor: int) -> None:
        self.arrivals: list[Arrival] = []
        self.came: list[Parts] = []
        self.turned_away = TurnedAway({}, lambda note: None)
        transport = TransportSection(bind="127.0.0.1:0", security="none")
        self._ended = False
        self.door = Door(transport, None, self.arrivals.append, lambda *_: None, self.turned_away, self._on_ended)
        self._context = Context()
        self.dealer = Dealer(self._context, self.door.address, 1 << 20, self.came.append, lambda *_: None)
        self.dealer.send(encode(Hello((1, minor), "ann", 1)))

    async def arrival(self) -> Arrival:
        """Return the next message that the door hands on."""
        await until(lambda: self.arrivals)
        return self.arrivals.pop()

    async def answer(self, frames: Sequence[Buffer], route: bytes) -> Parts:
        """Return what comes of frames that the door sends."""
        assert self.door.send(route, frames)
        await until(lambda: self.came)
        return self.came.pop()

    async def leave(self) -> None:
        """End the connection, and see that the door has heard of it."""
        self.dealer.close()
        await until(lambda: self._ended)

    def close(self) -> None:
        self.dealer.close()
        self._context.destroy(linger=0)
        self.door.close()

    def _on_ended(self, route: bytes, counters: object) -> None:
        self._ended = True


async def until(found: Callable[[], object]) -> None:
    async def poll() -> None:
        while not found():
            await asyncio.sleep(0.001)

    await asyncio.wait_for(poll(), WAIT_S)


@pytest.mark.parametrize("minor", [3, 4, 5])
def test_a_peer_is_sent_the_form_that_it_knows_and_heard_in_both(minor: int) -> None:
    async def main() -> None:
        peer = Peer(minor)
        try:
            route = (await peer.arrival()).route
            parts = await peer.answer(TASK, route)
            assert is_joined(parts) == (minor >= 4)
            assert parted(parts, 1 << 20) == TASK
            frames = [*UPDATE, TIMING.frame()]
            for sent in (frames, joined(frames, False)):
                peer.dealer.send(sent)
                arrival = await peer.arrival()
                assert (arrival.frames, arrival.timing) == (UPDATE, TIMING)
            await peer.leave()
            assert not peer.door._know_joined
        finally:
            peer.close()

    asyncio.run(main())


def test_a_prefix_that_lies_is_turned_away_and_the_next_message_heard() -> None:
    async def main() -> None:
        peer = Peer(4)
        try:
            await peer.arrival()
            peer.dealer.send([b"\xc1" + b"\xff" * 5])
            peer.dealer.send(joined(UPDATE, False))
            assert (await peer.arrival()).frames == UPDATE
            assert peer.turned_away.counts == {"junk": 1}
        finally:
            peer.close()

    asyncio.run(main())


def test_a_door_opens_also_where_no_more_descriptors_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(which: int, limits: tuple[int, int]) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)

    async def main() -> str:
        peer = Peer(4)
        peer.close()
        return peer.door.address

    assert asyncio.run(main()).startswith("127.0.0.1:")
