"""What is done where a batch does not fit on the device: half of it is tried."""

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
