"""Telling people whom and what a run waits for, so that no wait looks like a hang."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping

from coordinator.awaited import Guests, Wait, awaited
from coordinator.rounds import Phase, Rounds

FIRST_NOTE_S = 3.0
"""People are told after this time, and then every NOTE_EVERY_S."""

NOTE_EVERY_S = 30.0

STORE_EVERY_S = 10.0
"""Who is here is stored anew after this time, and when the run waits for something else."""

Put = Callable[[str, Mapping[str, float]], None]
"""Stores what a run waits for, and when each client that is here was last heard, in seconds since the epoch."""


class Presence:
    """What is stored of a wait, for those who ask from outside."""

    def __init__(self, put: Put, clock: Callable[[], float] = time.time) -> None:
        self._put = put
        self._clock = clock
        self._stored = ""
        self._stored_at = -math.inf

    def look(self, wait: Wait, heard_at: Mapping[str, float], at: float) -> None:
        """Store what is so at `at`, if that is due; this and `heard_at` are monotonic seconds."""
        if wait.what != self._stored or at - self._stored_at >= STORE_EVERY_S:
            ahead_s = self._clock() - at
            self._put(wait.line(at), {client: heard + ahead_s for client, heard in heard_at.items()})
            self._stored, self._stored_at = wait.what, at


async def tell_waiting(machine: Rounds, guests: Guests, note: Callable[[str], None], put: Put) -> None:
    """Tell soon after the start, on a change of whom is waited for, and now and then; never returns."""
    now, presence = asyncio.get_running_loop().time, Presence(put)
    presence.look(awaited(machine, guests), guests.heard_at(), now())
    told, told_at = "", now() - NOTE_EVERY_S
    while True:
        await asyncio.sleep(FIRST_NOTE_S)
        wait = awaited(machine, guests)
        presence.look(wait, guests.heard_at(), now())
        changed = wait.what != told and machine.phase is Phase.WAITING
        if changed or (now() - told_at >= NOTE_EVERY_S and machine.phase is not Phase.OVER):
            note(wait.line(now()))
            told, told_at = wait.what, now()
