"""Runs that cannot begin or go on for now: the disk has no room for their record, or another process has it open.

Each is tried again after a while.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinator.clients.awaited import FOR_SPACE
from coordinator.store.schema import InUseError, is_full

AGAIN_S = 5.0
"""So long after a run was found held up it is tried again."""


def waits_for(error: Exception) -> str:
    """Say what a run waits for whose record cannot be opened, "" if that is nothing that passes."""
    if isinstance(error, InUseError):
        return "waiting for another process to let go of it"
    return FOR_SPACE if is_full(error) else ""


class HeldUp:
    """Which runs these are, and why; times are monotonic seconds, and `note` is given a line, once of each run."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """Begin with none."""
        self._note = note
        self._found: dict[str, tuple[str, float]] = {}

    def add(self, run_id: str, why: str, at: float) -> None:
        """Take note that at this time a run was held up."""
        if run_id not in self._found:
            self._note(f"{run_id} is {why}; it is tried again")
        self._found[run_id] = (why, at + AGAIN_S)

    def drop(self, run_id: str) -> None:
        """A run is not held up any more, or it is over."""
        self._found.pop(run_id, None)

    def why(self, run_id: str) -> str:
        """Return why a run is held up, "" if it is not."""
        return self._found.get(run_id, ("", 0.0))[0]

    def is_early(self, run_id: str, at: float) -> bool:
        """Say whether a run is not to be tried yet."""
        return run_id in self._found and at < self._found[run_id][1]

    def is_due(self, run_id: str, at: float) -> bool:
        """Say whether a run that was held up is to be tried."""
        return run_id in self._found and not self.is_early(run_id, at)
