"""How long a thousand clients' parts of a data set of MNIST's size take to draw, or to be refused."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from models.partition import Labels, split
from models.spec import ConfigError, DataConfig
from tests.benchmarks.figure import Figure

CLASS_SIZES = (6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958)
"""MNIST's train and test set together."""

NUM_CLIENTS = 1000
REPEATS = 3
MAX_S = 10.0

CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("dirichlet 0.1, at least 10 each", {"partition": "dirichlet", "alpha": 0.1, "min_size": 10}),
    ("dirichlet 0.1, at least 1 each", {"partition": "dirichlet", "alpha": 0.1, "min_size": 1}),
    ("pathological", {"partition": "pathological"}),
    ("shard", {"partition": "shard"}),
)


def run(out: Path) -> list[Figure]:
    """Return the seconds until there is a partition or a refusal."""
    labels = Labels(np.repeat(np.arange(len(CLASS_SIZES)), CLASS_SIZES))
    return [_measure(name, labels, DataConfig(num_clients=NUM_CLIENTS, **settings)) for name, settings in CASES]


def _measure(name: str, labels: Labels, config: DataConfig) -> Figure:
    taken_s = []
    for seed in range(REPEATS):
        started = time.monotonic()
        with suppress(ConfigError):
            split(labels, config, seed)
        taken_s.append(time.monotonic() - started)
    return Figure.of(name, "s", taken_s, target=MAX_S)
