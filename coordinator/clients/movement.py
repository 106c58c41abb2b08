"""Whether a long message is on its way to or from a client: on a slow link that takes longer than a deadline.

A ping proves that a client's daemon lives, and nothing about its trainer. So what heartbeats come to is no movement:
the kernel's count of a connection must have grown by more than that since the last look, one heartbeat earlier at most.
Where the kernel does not say, nothing is seen to move.

A tunnel or a proxy may take in a whole update at once. Its client then sees nothing move, and its pings wait behind the
update, so it would take the coordinator for lost: whose message moves is sent a word unasked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from coordinator.clients.lobby import Lobby
from coordinator.round_events import ProgressMade
from coordinator.rounds import Rounds
from wire.sockets.tcp import Counters

MOVING_BYTES = 1024
"""Less from one look to the next is no movement: a heartbeat and its answer come to 120 bytes, at times to 300."""


class Movement:
    """Looks at connections by their routes; `counters` is the door's."""

    def __init__(self, counters: Callable[[bytes], Counters | None]) -> None:
        self._counters = counters
        self._seen: dict[bytes, int] = {}

    def look(self, routes: Mapping[str, bytes]) -> list[str]:
        """Return those of these clients to or from whom a message has moved on since the last look."""
        before, self._seen = self._seen, {}
        moving = []
        for client, route in routes.items():
            counters = self._counters(route)
            if counters is not None:
                taken_in = self._seen[route] = counters.received_bytes + counters.acked_bytes
                if taken_in - before.get(route, taken_in) >= MOVING_BYTES:
                    moving.append(client)
        return moving


async def tell_movement(
    machine: Rounds,
    lobby: Lobby,
    counters: Callable[[bytes], Counters | None],
    heartbeat_s: float,
    feed: Callable[[ProgressMade], None],
) -> None:
    """Feed the rounds progress of each client that has yet to answer and to or from whom a message moves.

    Such a client is sent a word at every heartbeat. It never returns.
    """
    movement, now = Movement(counters), asyncio.get_running_loop().time
    every_s = min(heartbeat_s, machine.rules.deadline_s / 4)
    while True:
        await asyncio.sleep(every_s)
        for client in movement.look(lobby.routes(machine.cohort - machine.answered)):
            lobby.prove_life(client, now())
            feed(ProgressMade(client, machine.round, machine.exchange, now()))
