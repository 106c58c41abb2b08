"""The fixed classifier: one vector for each class, all of length 1 and as far apart as so many vectors can be."""

from __future__ import annotations

import math

import numpy as np

from models.spec import ConfigError


def check_width(width: int, num_classes: int) -> None:
    """Refuse a space that holds no such frame.

    Raises:
        ConfigError: fewer dimensions than classes, or a single class.
    """
    if num_classes < 2:
        raise ConfigError(f"[method] dual_classifier: expected at least 2 classes, got {num_classes}")
    if width < num_classes:
        raise ConfigError(f"[method] projection_dim = {width}: expected at least {num_classes}, the number of classes")


def equiangular_frame(width: int, num_classes: int, random: np.random.Generator) -> np.ndarray:
    """Return float64 [E, C] with a unit column for each class and -1/(C - 1) between any two, Eq. (3).

    Raises:
        ConfigError: see `check_width`.
    """
    check_width(width, num_classes)
    orthonormal_EC, _ = np.linalg.qr(random.random((width, num_classes)))  # Eq. (9)
    centring_CC = np.eye(num_classes) - 1 / num_classes
    frame_EC: np.ndarray = math.sqrt(num_classes / (num_classes - 1)) * orthonormal_EC @ centring_CC  # Eq. (10)
    return frame_EC
