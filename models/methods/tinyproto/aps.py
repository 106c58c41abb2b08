"""Adaptive prototype scaling: prototypes that weigh as much as the samples behind them."""

from __future__ import annotations

import numpy as np

from models.methods.tinyproto import Config


def scaling_constant(config: Config, num_classes: int, num_train: int) -> float:
    """Return mu of Eq. (11), unless it is set one over the mean size of a class among the run's `num_train` samples."""
    return num_classes / max(num_train, 1) if config.mu == "auto" else config.mu


def scale_local(prototypes_CS: np.ndarray, counts: np.ndarray, mu: float) -> np.ndarray:
    """Return mu n_ij c_ij, float32 [C, S]: the factor of Eq. (11) is in before small floats could overflow."""
    return (mu * counts[:, None] * prototypes_CS.astype(np.float64)).astype(np.float32)


def aggregation_factors(config: Config, num_uploads_C: np.ndarray, num_train: int, num_present: int) -> np.ndarray:
    """Return by what the mean of each class's uploads is to be multiplied, [C].

    Args:
        config: whether there is APS, and whether it sums.
        num_uploads_C: |N_j|, how many clients have sent each class.
        num_train: the run's train samples.
        num_present: the train samples of those clients whose uploads came.
    """
    if not config.aps or config.aps_aggregation == "mean":
        return np.ones(len(num_uploads_C))  # Eq. (9), (10)
    return num_uploads_C * num_train / num_present
