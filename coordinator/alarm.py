"""The daemon's one timer: it is set to whatever is due next, once for all events that are at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls `on_due` at the time that `next_due` returns on the running event loop, which is asked at each `look`."""

    def __init__(self, next_due: Callable[[], float | None], on_due: Callable[[], None]) -> None:
        self._next_due = next_due
        self._on_due = on_due
        self._timer: asyncio.TimerHandle | None = None
        self._is_looking = False

    def look(self) -> None:
        """Look soon what is due next, once for all calls before that."""
        if not self._is_looking:
            self._is_looking = True
            asyncio.get_running_loop().call_soon(self._set)

    def cancel(self) -> None:
        """Call nothing any more, unless it is looked again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        """Set the timer if it would come too late; one that comes too early does no harm, and most move on."""
        self._is_looking = False
        due_at = self._next_due()
        if due_at is None or (self._timer is not None and self._timer.when() <= due_at):
            return
        self.cancel()
        self._timer = asyncio.get_running_loop().call_at(due_at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._on_due()
        self.look()
