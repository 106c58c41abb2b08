"""What a trainer may take of its device, so that others who use it hardly notice."""

from __future__ import annotations

import contextlib
import os

from edge_client.config import LimitsSection

MIB = 1 << 20


def limit(pid: int, limits: LimitsSection) -> None:
    """Give a process its niceness and its most memory, and so all threads that it starts from now on.

    Memory is what it allocates (RLIMIT_DATA); address space is no measure of it, as torch reserves gigabytes.
    """
    import resource

    with contextlib.suppress(ProcessLookupError):  # one that has ended is told of elsewhere
        if limits.nice > os.getpriority(os.PRIO_PROCESS, pid):
            os.setpriority(os.PRIO_PROCESS, pid, limits.nice)
        if limits.memory_mib:
            resource.prlimit(pid, resource.RLIMIT_DATA, (limits.memory_mib * MIB, limits.memory_mib * MIB))


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an allocation in main memory has failed; torch and the linker have no error of their own for it."""
    told = str(error)
    return isinstance(error, MemoryError) or "can't allocate memory" in told or "failed to map segment" in told
