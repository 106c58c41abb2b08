"""Runs that cannot begin or go on, as the disk has no room for their record: each is tried again after a while."""

from __future__ import annotations

from collections.abc import Callable

AGAIN_S = 5.0
"""So long after it was found that there is no room for a run it is tried again."""


class NoRoom:
    """Which runs these are, and why; times are monotonic seconds, and `note` is given a line, once of each run."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """Begin with none."""
        self._note = note
        self._found: dict[str, tuple[str, float]] = {}

    def add(self, run_id: str, why: str, at: float) -> None:
        """Take note that at this time there was no room for a run."""
        if run_id not in self._found:
            self._note(f"{run_id} waits for space on the disk, and is tried again: {why}")
        self._found[run_id] = (why, at + AGAIN_S)

    def drop(self, run_id: str) -> None:
        """There was room for a run, or it is over."""
        self._found.pop(run_id, None)

    def why(self, run_id: str) -> str:
        """Return why there was no room for a run, "" if there was."""
        return self._found.get(run_id, ("", 0.0))[0]

    def is_early(self, run_id: str, at: float) -> bool:
        """Say whether a run is not to be tried yet."""
        return run_id in self._found and at < self._found[run_id][1]

    def is_due(self, run_id: str, at: float) -> bool:
        """Say whether a run that there was no room for is to be tried."""
        return run_id in self._found and not self.is_early(run_id, at)
