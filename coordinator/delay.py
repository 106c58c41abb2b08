"""Something that is due after a while, unless it is put off or ends before: mostly it does, so that costs no timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Delay:
    """Calls `on_due` on the running event loop, `after_s` seconds after it began or was put off."""

    def __init__(self, after_s: float, on_due: Callable[[], None]) -> None:
        self._after_s = after_s
        self._on_due = on_due
        self._due_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Be due after the while, or when it is due already."""
        if self._due_at is None:
            self.put_off()

    def put_off(self) -> None:
        """Be due after the while from now on."""
        loop = asyncio.get_running_loop()
        self._due_at = loop.time() + self._after_s
        if self._timer is None:
            self._timer = loop.call_at(self._due_at, self._look)

    def end(self) -> None:
        """Be due no more."""
        self._due_at = None

    def cancel(self) -> None:
        """Be due no more, and let the event loop forget it."""
        self.end()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """See whether it is due: the timer may be that of an earlier time, never of a later one."""
        self._timer = None
        if self._due_at is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._due_at:
            self._timer = loop.call_at(self._due_at, self._look)
        else:
            self._due_at = None
            self._on_due()
