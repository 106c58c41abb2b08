"""What a trainer may take of its device, so that others who use it hardly notice."""

from __future__ import annotations

import contextlib
import os

from edge_client.config import LimitsSection
from models.spec import in_one_line

MEBIBYTE = 1 << 20

_SIGNS = (
    "MemoryError",
    "can't start new thread",
    "Memory allocation",
    "allocate memory",
    "failed to map segment",
    "cannot map zero-fill pages",
    "bad_alloc",
)
"""What Python, OpenBLAS, torch, the linker and C++ say where an allocation has failed."""


def limit(pid: int, limits: LimitsSection) -> None:
    """Give a process its niceness and its most memory, and so all threads that it starts from now on.

    Memory is what it allocates (RLIMIT_DATA); address space is no measure of it, as torch reserves gigabytes.
    """
    import resource

    with contextlib.suppress(ProcessLookupError):  # one that has ended is told of elsewhere
        if limits.nice > os.getpriority(os.PRIO_PROCESS, pid):
            os.setpriority(os.PRIO_PROCESS, pid, limits.nice)
        if limits.memory_mib:
            resource.prlimit(pid, resource.RLIMIT_DATA, (limits.memory_mib * MEBIBYTE, limits.memory_mib * MEBIBYTE))


def error_in_words(error: Exception, memory_mib: int) -> str:
    """Return an error for people; if it is for want of memory, with the limit that there is on it."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    told = f"{type(error).__name__}: {error}"
    return told_of_lack(told, memory_mib) or in_one_line(told)


def told_of_lack(told: str, memory_mib: int) -> str:
    """Return the line of what an ended trainer said that is for want of memory, with the limit; "" if there is none."""
    lines = (line.strip() for line in reversed(told.splitlines()) if any(sign in line for sign in _SIGNS))
    lack, _, _ = next(lines, "").partition("; pip install ")  # which would not help
    return f"ran out of [limits] memory_mib = {memory_mib}: {lack}" if memory_mib and lack else ""
