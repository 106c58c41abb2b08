"""The daemon's one timer: it is set to whatever is due next, once for all events that are at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LOOK_EVERY_S = 0.01
"""It is looked at most so often what is due next: rounds may follow each other faster, and nothing is due that soon."""


class Alarm:
    """Calls `on_due` at the time that `next_due` returns on the running event loop, which is asked at each `look`."""

    def __init__(self, next_due: Callable[[], float | None], on_due: Callable[[], None]) -> None:
        self._next_due = next_due
        self._on_due = on_due
        self._timer: asyncio.TimerHandle | None = None
        self._is_looking = False
        self._look_from = 0.0

    def look(self) -> None:
        """Look soon what is due next, once for all calls before that."""
        if self._is_looking:
            return
        self._is_looking = True
        loop = asyncio.get_running_loop()
        if loop.time() < self._look_from:
            loop.call_at(self._look_from, self._set)
        else:
            loop.call_soon(self._set)

    def cancel(self) -> None:
        """Call nothing any more, unless it is looked again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        """Set the timer if it would come too late; one that comes too early does no harm, and most move on."""
        loop = asyncio.get_running_loop()
        self._is_looking, self._look_from = False, loop.time() + LOOK_EVERY_S
        due_at = self._next_due()
        if due_at is None or (self._timer is not None and self._timer.when() <= due_at):
            return
        self.cancel()
        self._timer = loop.call_at(due_at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._on_due()
        self.look()
