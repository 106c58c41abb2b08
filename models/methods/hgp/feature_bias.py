"""How far apart the clients' means of a class are."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np


def feature_bias(means_by_class: Mapping[int, list[np.ndarray]]) -> float:
    """Return the mean distance between two clients' means of a class, over classes that two have; NaN if none is."""
    per_class = [
        np.mean([np.linalg.norm(one.astype(np.float64) - other) for one, other in combinations(means, 2)])
        for means in means_by_class.values()
        if len(means) > 1
    ]
    return float(np.mean(per_class)) if per_class else float("nan")
