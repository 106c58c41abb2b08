"""Accuracy rules as scores that are linear in the features, which is how an exported model holds them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


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
        scores_BA = features_BD @ self.weight_AD.T + self.bias_A
        return np.asarray(self.classes[scores_BA.argmax(axis=1)])


def nearest_prototype(prototypes_AD: np.ndarray, classes: np.ndarray) -> LinearRule:
    """Return the rule of the nearest prototype: its score is the square of the feature less the squared distance."""
    squares_A = np.square(prototypes_AD, dtype=np.float64).sum(axis=1)
    return LinearRule(2 * prototypes_AD, -squares_A.astype(np.float32), classes.astype(np.int64), True)
