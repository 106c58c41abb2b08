"""The processes that make what is wanted of the figures of runs that are over, as that takes memory and time."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable

from coordinator.config import RunConfig
from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import in_words

END_S = 10.0
"""How long pages may take that are not ready when the service ends: nobody makes them later."""


class Reporters:
    """Those that are at work; `note` is given a line of each that cannot be started."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """Begin with none."""
        self._note = note
        self._at_work: list[subprocess.Popen[bytes]] = []

    def make(self, folder: RunFolder, config: RunConfig) -> None:
        """Have what is wanted of a run's figures made, if anything is."""
        if forms := config.report.forms:
            command = [sys.executable, "-I", "-m", "coordinator.report", str(folder.path), *forms]
            try:
                with folder.log_path.open("ab") as log:
                    self._at_work.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
            except OSError as error:
                self._note(f"{folder.run_id} has no report: {in_words(error, folder.path)}")

    def clear(self) -> None:
        """Forget those that have ended."""
        self._at_work = [reporter for reporter in self._at_work if reporter.poll() is None]

    def let_finish(self) -> None:
        """Wait for those that are at work, `END_S` at most."""
        give_up_at = time.monotonic() + END_S
        for reporter in self._at_work:
            with contextlib.suppress(subprocess.TimeoutExpired):
                reporter.wait(max(0.0, give_up_at - time.monotonic()))
            reporter.kill()
