"""Windows of the day."""

from __future__ import annotations

import re
from typing import NamedTuple

_WINDOW = re.compile(r"(\d\d):(\d\d)-(\d\d):(\d\d)")


class Window(NamedTuple):
    """A part of every day, in minutes since midnight; one that ends before it starts goes on past midnight."""

    start: int
    end: int

    def holds(self, minute: int) -> bool:
        """Say whether it is open at this minute of the day."""
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


def read_window(text: str) -> Window | None:
    """Return the window of a text such as 22:00-06:00, None if it is none."""
    found = _WINDOW.fullmatch(text)
    if found is None:
        return None
    hours = (int(found[1]), int(found[3]))
    minutes = (int(found[2]), int(found[4]))
    start, end = (hour * 60 + minute for hour, minute in zip(hours, minutes, strict=True))
    is_time = max(minutes) < 60 and max(start, end) <= 24 * 60
    return Window(start, end) if is_time and start != end else None
