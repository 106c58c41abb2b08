"""The same for all clients."""

from __future__ import annotations

import numpy as np

from models.partition import Labels, require_enough
from models.spec import DataConfig


def iid(labels: Labels, config: DataConfig, random: np.random.Generator) -> list[np.ndarray]:
    """Deal all rows out at random, in parts that differ by one at most."""
    require_enough(len(labels.spread), config)
    return list(np.array_split(random.permutation(len(labels.spread)), config.num_clients))
