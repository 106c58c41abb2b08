"""Whom and what a run waits for, and who is here: told to people, so that no wait looks like a hang, and stored."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Set

import msgspec

from coordinator.clients.awaited import Guests, Wait
from coordinator.rounds import Phase, Rounds

FIRST_NOTE_S = 3.0
"""People are told after this time, and then every NOTE_EVERY_S."""

NOTE_EVERY_S = 30.0

LOOK_EVERY_S = 0.5
"""Who is here is looked at this often, and stored at once if that has changed ..."""

STORE_EVERY_S = 10.0
"""... and otherwise after this time, or after FIRST_NOTE_S where the run waits for something else."""


class Presence(msgspec.Struct, frozen=True):
    """Who was here, for those who ask from outside; times in seconds since the epoch.

    Attributes:
        at_s: when that was so.
        waits_for: whom and what the run waited for, in a line for people.
        heard_at_s: when each client that was here was last heard.
        ready: those of them that could work.
        gone_at_s: when those were last heard that this process has seen and that were here no more.
    """

    at_s: float = 0.0
    waits_for: str = ""
    heard_at_s: Mapping[str, float] = {}
    ready: frozenset[str] = frozenset()
    gone_at_s: Mapping[str, float] = {}

    def silent_s(self, client: str) -> float | None:
        """Return for how long nothing had been heard of a client by then, None if it was never seen."""
        heard_at_s = self.heard_at_s.get(client, self.gone_at_s.get(client))
        return max(0.0, self.at_s - heard_at_s) if heard_at_s is not None else None


Put = Callable[[Presence], None]


class PresenceWatch:
    """Says when who is here is to be stored anew; times that come in are monotonic seconds."""

    def __init__(self, put: Put, clock: Callable[[], float] = time.time) -> None:
        self._put = put
        self._clock = clock
        self._stored = Presence()
        self._stored_what = ""
        self._stored_at = -math.inf

    def look(self, wait: Wait, heard_at: Mapping[str, float], ready: Set[str], at: float) -> None:
        """Store what is so at `at`, if that is due."""
        before = self._stored
        is_news = before.heard_at_s.keys() != heard_at.keys() or before.ready != ready
        every_s = STORE_EVERY_S if self._stored_what == wait.what else FIRST_NOTE_S
        if not is_news and at - self._stored_at < every_s:
            return
        ahead_s = self._clock() - at
        heard_at_s = {client: heard + ahead_s for client, heard in heard_at.items()}
        seen = {**before.gone_at_s, **before.heard_at_s}
        gone_at_s = {client: heard_s for client, heard_s in seen.items() if client not in heard_at}
        self._stored = Presence(at + ahead_s, wait.line(at), heard_at_s, frozenset(ready), gone_at_s)
        self._stored_what, self._stored_at = wait.what, at
        self._put(self._stored)


async def tell_waiting(
    wait: Callable[[], Wait], machine: Rounds, guests: Guests, note: Callable[[str], None], put: Put
) -> None:
    """Store who is here, and tell people whom the run waits for, which is what `wait` returns; never returns.

    They are told soon after the start, on a change of whom is waited for, and now and then.
    """
    now, watch = asyncio.get_running_loop().time, PresenceWatch(put)
    told, due_at = "", now() + FIRST_NOTE_S
    while True:
        await _look_on(wait, machine, guests, watch, min(now() + FIRST_NOTE_S, due_at))
        found = wait()
        changed = found.what != told and machine.phase is Phase.WAITING
        if changed or now() >= due_at:
            told, due_at = found.what, now() + NOTE_EVERY_S
            if machine.phase is not Phase.OVER:
                note(found.line(now()))


async def _look_on(
    wait: Callable[[], Wait], machine: Rounds, guests: Guests, watch: PresenceWatch, until: float
) -> None:
    """Look at who is here until then."""
    now = asyncio.get_running_loop().time
    while (left_s := until - now()) > 0:
        watch.look(wait(), guests.heard_at(), machine.ready, now())
        await asyncio.sleep(min(LOOK_EVERY_S, left_s))
