"""What queued runs wait for, told to people, so that no wait looks like a hang."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

LOOK_EVERY_S = 3.0
"""Another queue than the one that was told of is told of after this time ..."""

NOTE_EVERY_S = 30.0
"""... and the same again after this time at most."""


class QueueNotes:
    """Says when people are to be told of the queue; times are monotonic seconds."""

    def __init__(self) -> None:
        self._told: list[str] = []
        self._told_at = 0.0

    def look(self, queued: Sequence[str], at: float) -> bool:
        """Say whether a line is due at `at`, when these runs are in the queue, which is then told."""
        is_due = at + LOOK_EVERY_S > self._told_at + NOTE_EVERY_S
        is_news = [*queued] != self._told
        self._told = [*queued]
        if not queued or not (is_news or is_due):
            return False
        self._told_at = at
        return True


async def tell_queue(
    queued: Callable[[], Sequence[str]], why: Callable[[str], str], note: Callable[[str], None]
) -> None:
    """Tell people what the first run of the queue waits for, when the queue changes and now and then; never returns."""
    notes, now = QueueNotes(), asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        runs = queued()
        if notes.look(runs, now()):
            others = f"; {len(runs) - 1} more behind it" if len(runs) > 1 else ""
            note(f"{runs[0]} is queued: {why(runs[0])}{others}")
