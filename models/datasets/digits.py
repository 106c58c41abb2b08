"""scikit-learn's bundled handwritten digits: 1,797 grey images of 8 x 8."""

from __future__ import annotations

import numpy as np

from models.data import Dataset, dataset_classes
from models.spec import DataConfig, missing_package


def load(config: DataConfig) -> Dataset:
    """Return the digits, scaled to 0..1."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise missing_package("[data] dataset = 'digits' needs", "scikit-learn", "train") from None
    x, y = load_digits(return_X_y=True)
    return Dataset((x / 16).astype(np.float32).reshape(-1, 1, 8, 8), y, dataset_classes(config))


def classes(config: DataConfig) -> list[str]:
    """Return the ten digits."""
    return [str(digit) for digit in range(10)]
