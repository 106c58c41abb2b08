"""What was turned away at the door, by kind: counted always, told only so often that no log is filled by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

MAX_LINES = 5
"""So many lines of a kind may come in a row ..."""

LINE_EVERY_S = 30.0
"""... and then one in so many seconds, which says how many there were that nobody was told of."""


MAX_CHARACTERS = 300
"""Of what is told of one: it may quote what came."""


class TurnedAway:
    """The counts; `note` is given the lines."""

    def __init__(
        self, counts: Mapping[str, int], note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Go on from these counts."""
        self.counts = dict(counts)
        self.note = note
        self._clock = clock
        self._due: dict[str, float] = {}
        self._untold: dict[str, int] = {}

    def add(self, kind: str, text: str) -> None:
        """Count one, and tell of it if there was not too much of its kind lately."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        now = self._clock()
        due = max(now, self._due.get(kind, now))
        if due - now > (MAX_LINES - 1) * LINE_EVERY_S:
            self._untold[kind] = self._untold.get(kind, 0) + 1
            return
        self._due[kind] = due + LINE_EVERY_S
        untold = self._untold.pop(kind, 0)
        more = f"; and {untold} more since the last such line" if untold else ""
        self.note(f"turned away ({kind}): {text:.{MAX_CHARACTERS}}{more}")
