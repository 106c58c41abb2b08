"""Runs that cannot begin or go on for now: the disk has no room for their record, or another process has it open.

Each is tried again after a while.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from coordinator.clients.awaited import FOR_SPACE
from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import InUseError, in_words, is_full

AGAIN_S = 5.0
"""So long after a run was found held up it is tried again."""


class _Found(NamedTuple):
    why: str
    again_at: float
    is_elsewhere: bool


class HeldUp:
    """Which runs these are, and why; times are monotonic seconds, and `note` is given a line, once of each run."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """Begin with none."""
        self._note = note
        self._found: dict[str, _Found] = {}

    def add(self, folder: RunFolder, error: Exception, at: float) -> bool:
        """Say whether what kept a run from being opened at this time passes, and if so take note of it."""
        if not (why := _hindrance(error, folder.path)):
            return False
        if folder.run_id not in self._found:
            self._note(f"{folder.run_id} is {why}; it is tried again")
        self._found[folder.run_id] = _Found(why, at + AGAIN_S, isinstance(error, InUseError))
        return True

    def put_off(self, run_id: str, at: float) -> None:
        """A run is held up still."""
        self._found[run_id] = self._found[run_id]._replace(again_at=at + AGAIN_S)

    def drop(self, run_id: str) -> None:
        """A run is not held up any more, or it is over."""
        self._found.pop(run_id, None)

    def why(self, run_id: str) -> str:
        """Return why a run is held up, "" if it is not."""
        return self._found[run_id].why if run_id in self._found else ""

    def is_elsewhere(self, run_id: str) -> bool:
        """Say whether it is another process that holds a run up."""
        return run_id in self._found and self._found[run_id].is_elsewhere

    def is_early(self, run_id: str, at: float) -> bool:
        """Say whether a run is not to be tried yet."""
        return run_id in self._found and at < self._found[run_id].again_at

    def is_due(self, run_id: str, at: float) -> bool:
        """Say whether a run that was held up is to be tried."""
        return run_id in self._found and not self.is_early(run_id, at)


def _hindrance(error: Exception, place: Path) -> str:
    if isinstance(error, InUseError):
        return f"waiting for process {error.holder} to let go of it; `coordinator stop` ends that process"
    return f"{FOR_SPACE}: {in_words(error, place)}" if is_full(error) else ""
