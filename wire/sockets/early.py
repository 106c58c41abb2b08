"""What a signal does to a command before anybody handles it: it ends that quietly. To be said before the imports."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from wire.exit_codes import ExitCode

PAUSES = ("SIGUSR1", "SIGUSR2")
"""The signals that pause a client; one that comes before it can be paused ends nothing."""


def leave_on_signals(ignored: Sequence[str] = ()) -> None:
    """End this process by the signals that end a daemon, without a word; those that are `ignored` do nothing."""
    if sys.platform == "win32":  # where no command goes on
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
            signal.signal(number, _leave)
    for each in ignored:
        signal.signal(signal.Signals[each], signal.SIG_IGN)


def _leave(number: int, frame: object) -> None:
    os._exit(ExitCode.INTERRUPTED)
