"""What a trainer may take of its device, so that others who use it hardly notice."""

from __future__ import annotations

import contextlib
import os

from edge_client.config import LimitsSection

MEBIBYTE = 1 << 20

_SIGNS = ("can't allocate memory", "failed to map segment")
"""What torch and the linker say where an allocation has failed."""


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


def in_words(error: Exception, memory_mib: int) -> str:
    """Return an error for people; if it is for want of memory, with the limit that there is on it."""
    told = f"{type(error).__name__}: {error}"
    is_for_memory = isinstance(error, MemoryError) or any(sign in told for sign in _SIGNS)
    return f"{told} ([limits] memory_mib = {memory_mib})" if memory_mib and is_for_memory else told
