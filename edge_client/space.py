"""Space on the device's disk, which what a trainer writes waits for; people and the daemon are told of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from edge_client import commands
from models.steps import AbandonedError
from wire.disk import lacks_space
from wire.encoding import encode
from wire.sockets.pipe import ChildPipe

MadeT = TypeVar("MadeT")

SPACE_AGAIN_S = 2.0
"""How often a full disk is tried again."""


class TaskAbandonedError(AbandonedError):
    """Another command waits, so the task at hand is out of date."""


class Space:
    """Has what is written wait while the disk is full: at first what prepares a run, then what its tasks write."""

    def __init__(self, pipe: ChildPipe) -> None:
        self._pipe = pipe
        self._in_task = self._is_held = False

    def begin_task(self) -> None:
        """Let a task wait no longer than until another command comes; one that was abandoned waits no more."""
        self._in_task = True
        self._hold("")

    def keep(self, write: Callable[[], MadeT]) -> MadeT:
        """Write to disk; a full one is told of, and tried again until there is space.

        Raises:
            TaskAbandonedError: another command waits.
        """
        while True:
            try:
                made = write()
            except OSError as error:
                if not lacks_space(error):
                    raise
                self._lack(error)
            else:
                self._hold("")
                return made
            if not self._in_task:
                time.sleep(SPACE_AGAIN_S)  # what waits in the pipe are run constants; its end ends this process
            elif self._pipe.has_message(SPACE_AGAIN_S):
                raise TaskAbandonedError

    def _lack(self, error: OSError) -> None:
        if not self._is_held:
            what = "this task" if self._in_task else "the run"
            note = f"{error.strerror}: {error.filename}; {what} waits for space there"
            self._pipe.send(encode(commands.Note(commands.fit(note))))
            self._hold(f"space on its disk ({error.strerror})")

    def _hold(self, waits_for: str) -> None:
        """Tell the daemon what the work at hand waits for, nothing if it goes on."""
        if bool(waits_for) != self._is_held:
            self._is_held = bool(waits_for)
            self._pipe.send(encode(commands.Waits(waits_for)))
