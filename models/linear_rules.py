"""Accuracy rules as scores that are linear in the features, which is how an exported model holds them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_MAX_SCORES = 1 << 22
"""How many scores are held at a time: 16 MiB of float32."""


def rows_at_a_time(num_classes: int) -> int:
    """Return how many features may be scored for so many classes in one go, at least one."""
    return max(1, _MAX_SCORES // max(1, num_classes))


class LinearRule(NamedTuple):
    """The class of the largest score wins: weights [A, D], biases [A], and the class of each row, [A]."""

    weight_AD: np.ndarray
    bias_A: np.ndarray
    classes: np.ndarray
    is_distance: bool = False
    """Whether a score is the feature's square less its squared distance to a prototype."""

    def predict(self, features_BD: np.ndarray) -> np.ndarray:
        """Return class ids [B], -1 where there is no class."""
        if not len(self.classes):
            return np.full(len(features_BD), -1)
        rows = rows_at_a_time(len(self.classes))
        best_B = np.empty(len(features_BD), np.int64)
        for begin in range(0, len(features_BD), rows):
            chunk = slice(begin, begin + rows)
            best_B[chunk] = (features_BD[chunk] @ self.weight_AD.T + self.bias_A).argmax(axis=1)
        return np.asarray(self.classes[best_B])


def nearest_prototype(prototypes_AD: np.ndarray, classes: np.ndarray) -> LinearRule:
    """Return the rule of the nearest prototype: its score is the square of the feature less the squared distance."""
    squares_A = np.square(prototypes_AD, dtype=np.float64).sum(axis=1)
    return LinearRule(2 * prototypes_AD, -squares_A.astype(np.float32), classes.astype(np.int64), True)
