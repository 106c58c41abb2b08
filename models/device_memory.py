"""The memory of the device that is computed on: its peak, its reuse, half a batch where a whole one does not fit."""

from __future__ import annotations

import ctypes
import sys
import warnings

import torch

OutOfMemoryError = torch.cuda.OutOfMemoryError
"""What torch raises, by the name that its versions before 2.5 have as well."""

_KEPT_BYTES = 256 << 20
_MAPPED_BYTES = 32 << 20
"""Larger pieces still come and go one by one; the most that glibc takes."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Names of glibc's `mallopt`."""


def halved(size: int, error: OutOfMemoryError) -> int:
    """Return half the batch size that did not fit; a warning says so, once for each size.

    Raises:
        OutOfMemoryError: a single sample did not fit, so `error` stands.
    """
    if size <= 1:
        raise error
    text = f"a batch of {size} samples does not fit into the device's memory: going on with {size // 2} at a time"
    warnings.warn(text, RuntimeWarning, stacklevel=2)
    return size // 2


def take_peak_bytes(device: torch.device) -> int:
    """Return the largest memory that tensors have held on a GPU since the last call, 0 on anything else."""
    if device.type != "cuda":
        return 0
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    return int(peak)


def keep_freed() -> None:
    """Have this process keep what memory it frees, up to 256 MiB; does nothing where the C library is not glibc.

    Else what a step with large tensors frees goes back to the system, and comes anew, page by page, in the next step.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
