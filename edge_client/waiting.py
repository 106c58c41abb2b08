"""What a client waits for and when people are told of it again, as a pure state machine; see `session`."""

from __future__ import annotations

import math
from enum import Enum

NOTE_EVERY_S = 30.0
"""People are told so often of a wait that goes on."""


class Work(Enum):
    """The work for the present run; the value says what it waits for."""

    NONE = "the next run"
    PREPARING = "the trainer to load data and model"
    IDLE = "the next task"
    WORKING = "the trainer to do its task"
    HOLDING = "the coordinator to take the update"


class Wait:
    """What is waited for and since when. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.note_at = math.inf
        self._what: Work | str = ""
        self._since = 0.0

    def look(self, what: Work | str, at: float) -> None:
        """Take what is waited for at `at`; another than before begins anew."""
        if what != self._what:
            self._what, self._since, self.note_at = what, at, at + NOTE_EVERY_S

    def note(self, at: float, why: str = "") -> list[str]:
        """Return the line that is due now, if one is, with why what is waited for has not come if that is known."""
        if at < self.note_at:
            return []
        self.note_at = at + NOTE_EVERY_S
        what = self._what.value if isinstance(self._what, Work) else self._what
        told = f"still waiting, after {in_words(at - self._since)}, for {what}"
        return [f"{told}: {why}" if why else told]


def in_words(duration_s: float) -> str:
    """Return a duration for people, such as 30 s, 5 min or 3 h 20 min."""
    if duration_s < 90.0:
        return f"{duration_s:.0f} s"
    hours, minutes = divmod(round(duration_s / 60.0), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
