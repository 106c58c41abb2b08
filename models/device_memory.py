"""The memory of the device that is computed on: its peak, and half a batch where a whole one does not fit."""

from __future__ import annotations

import warnings

import torch


def halved(size: int, error: torch.OutOfMemoryError) -> int:
    """Return half the batch size that did not fit; a warning says so, once for each size.

    Raises:
        torch.OutOfMemoryError: a single sample did not fit, so `error` stands.
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
