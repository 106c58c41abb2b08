"""Cross-entropy and its gradient by numpy alone, for what is trained without torch."""

from __future__ import annotations

import numpy as np


def cross_entropy(logits_BC: np.ndarray, labels_B: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the mean loss of a batch, and its gradient [B, C] by the logits, of their dtype."""
    rows = np.arange(len(labels_B))
    shifted_BC = logits_BC - logits_BC.max(axis=1, keepdims=True)
    exponentials_BC = np.exp(shifted_BC)
    sums_B = exponentials_BC.sum(axis=1)
    loss = float((np.log(sums_B) - shifted_BC[rows, labels_B]).mean())
    gradient_BC = exponentials_BC / sums_B[:, None]
    gradient_BC[rows, labels_B] -= 1
    gradient_BC /= len(labels_B)
    return loss, gradient_BC
