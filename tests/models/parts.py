"""What the parts of a partition hold."""

from collections.abc import Sequence

import numpy as np


def histogram(labels: np.ndarray, parts: Sequence[np.ndarray], num_classes: int) -> np.ndarray:
    """Return how many samples of each class stand in each part, int64 [parts, classes]."""
    return np.stack([np.bincount(labels[rows], minlength=num_classes) for rows in parts])
