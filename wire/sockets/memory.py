"""A process's own peak of resident memory, of all its life and of one part of it after the other.

The kernel keeps the peak (VmHWM), so no spike between two looks is missed, and what a process was started by does not
count, as it does in `ru_maxrss`. Where it may be told to begin anew, the peak of a round is that of the round alone.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
import weakref
from collections.abc import Callable

_STATUS_BYTES = 8192
"""More than the kernel says of a process."""

_FORGET = b"5"

Pid = int | str | None
"""A process, `self` for this one; None for one that has not been started."""


class ProcessMemory:
    """What the kernel says of one process's memory, in files that are held open: they are used for each task."""

    def __init__(self, pid: Pid = "self") -> None:
        self.pid = pid
        self._status = self._opened("status", os.O_RDONLY)
        self._command = self._opened("clear_refs", os.O_WRONLY)

    def peak_bytes(self) -> int | None:
        """Return its own peak resident memory (VmHWM), None where the system does not say."""
        content = b""
        if self._status is not None:
            with contextlib.suppress(OSError):  # it is gone
                content = os.pread(self._status, _STATUS_BYTES, 0)
        _, found, behind = content.partition(b"VmHWM:")
        return int(behind.split(None, 1)[0]) * 1024 if found else None

    def forget_peak(self) -> bool:
        """Let its peak begin anew at what it holds now; False where that is not allowed."""
        if self._command is None:
            return False
        try:
            return os.pwrite(self._command, _FORGET, 0) > 0
        except OSError:
            return False

    def _opened(self, name: str, flags: int) -> int | None:
        try:
            descriptor = os.open(f"/proc/{self.pid}/{name}", flags)
        except OSError:
            return None
        weakref.finalize(self, os.close, descriptor)
        return descriptor


def peak_rss_bytes(pid: Pid = "self") -> int | None:
    """Return a process's own peak resident memory, None where the system does not say."""
    return ProcessMemory(pid).peak_bytes()


LOOK_EVERY_S = 0.05
"""Peaks are looked at no more often: a look costs as much as a small task."""


class PeakMemory:
    """The peaks of one process, or of those that take its place."""

    def __init__(self, pid: Callable[[], Pid], every_s: float = LOOK_EVERY_S) -> None:
        self._pid = pid
        self._every_s = every_s
        self._looked_at = -math.inf
        self._process = ProcessMemory(pid())
        self._before_bytes = 0
        self._is_fresh = False

    def take_bytes(self) -> int | None:
        """Return the peak since the last look, None if it cannot be told from what was before, or that was just now."""
        now = time.monotonic()
        if now < self._looked_at + self._every_s:
            return None
        process = self._present()
        peak, was_fresh = process.peak_bytes(), self._is_fresh
        self._before_bytes = max(self._before_bytes, peak or 0)
        self._is_fresh = process.forget_peak()
        if not was_fresh:
            return None
        self._looked_at = now
        return peak

    def overall_bytes(self) -> int | None:
        """Return the largest peak of all, None if none is known."""
        return max(self._before_bytes, self._present().peak_bytes() or 0) or None

    def _present(self) -> ProcessMemory:
        if self._process.pid != (pid := self._pid()):
            self._process = ProcessMemory(pid)
        return self._process
