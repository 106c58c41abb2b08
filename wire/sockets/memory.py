"""A process's own peak of resident memory, of all its life and of one part of it after the other.

The kernel keeps the peak (VmHWM), so no spike between two looks is missed, and what a process was started by does not
count, as it does in `ru_maxrss`. Where it may be told to begin anew, the peak of a round is that of the round alone.
"""

from __future__ import annotations

from collections.abc import Callable

_STATUS_BYTES = 8192
"""More than the kernel says of a process; both files are read and written for each task, so it is done plainly."""

_FORGET = b"5"

Pid = int | str | None
"""A process, `self` for this one; None for one that has not been started."""


def peak_rss_bytes(pid: Pid = "self") -> int | None:
    """Return a process's own peak resident memory (VmHWM), None where the system does not say."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as status:
            content = status.read(_STATUS_BYTES)
    except OSError:
        return None
    _, found, behind = content.partition(b"VmHWM:")
    return int(behind.split(None, 1)[0]) * 1024 if found else None


def forget_peak(pid: Pid) -> bool:
    """Let a process's peak begin anew at what it holds now; False where that is not allowed."""
    try:
        with open(f"/proc/{pid}/clear_refs", "wb", buffering=0) as command:
            command.write(_FORGET)
    except OSError:
        return False
    return True


class PeakMemory:
    """The peaks of one process, or of those that take its place."""

    def __init__(self, pid: Callable[[], Pid]) -> None:
        self._pid = pid
        self._before_bytes = 0
        self._is_fresh = False

    def take_bytes(self) -> int | None:
        """Return the peak since the last call, None if it cannot be told from what was before."""
        pid = self._pid()
        peak, was_fresh = peak_rss_bytes(pid), self._is_fresh
        self._before_bytes = max(self._before_bytes, peak or 0)
        self._is_fresh = forget_peak(pid)
        return peak if was_fresh else None

    def overall_bytes(self) -> int | None:
        """Return the largest peak of all, None if none is known."""
        return max(self._before_bytes, peak_rss_bytes(self._pid()) or 0) or None
