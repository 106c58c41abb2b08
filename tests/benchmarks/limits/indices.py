"""What random index sets take beside their entropy, and how long coding them takes."""

from __future__ import annotations

import math
import timeit
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests.benchmarks.figure import Figure
from wire.indices import decode_indices, encode_indices

UNIVERSES = (5_130, 66_954, 300_000, 1_300_000)
DENSITIES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.214, 0.3, 0.382, 0.45, 0.5)
NUM_SETS = 3

TIMED_UNIVERSE = 1_300_000
TIMED_DENSITIES = (0.01, 0.1, 0.3, 0.5)
NUM_CALLS = 15
MAX_NS = {0.1: 40.0}


def run(out: Path) -> list[Figure]:
    """Return the bytes of each size and density, and the times per index of the largest."""
    sizes = [_size(universe, density) for universe in UNIVERSES for density in DENSITIES]
    return [*sizes, *(figure for density in TIMED_DENSITIES for figure in _times(density))]


def _size(universe: int, density: float) -> Figure:
    count = int(density * universe)
    sizes = [len(encode_indices(_random_set(universe, count, seed), universe)) for seed in range(NUM_SETS)]
    entropy = _entropy_bytes(universe, count)
    most = math.floor((1.03 if density <= 0.3 else 1.045) * entropy + 8)
    name = f"{count:,} of {universe:,}"
    return Figure.of(name, "bytes", sizes, target=most + 1, limit=entropy, limit_name="entropy")


def _times(density: float) -> list[Figure]:
    count = int(density * TIMED_UNIVERSE)
    members = _random_set(TIMED_UNIVERSE, count, seed=0)
    content = encode_indices(members, TIMED_UNIVERSE)
    calls: dict[str, Callable[[], object]] = {
        "encode": lambda: encode_indices(members, TIMED_UNIVERSE),
        "decode": lambda: decode_indices(content, TIMED_UNIVERSE),
    }
    return [_time(f"{name} {count:,} of {TIMED_UNIVERSE:,}", call, count, density) for name, call in calls.items()]


def _time(name: str, call: Callable[[], object], count: int, density: float) -> Figure:
    samples = [1e9 * took / count for took in timeit.repeat(call, number=1, repeat=NUM_CALLS)]
    return Figure.of(name, "ns per index", samples, target=MAX_NS.get(density))


def _entropy_bytes(universe: int, count: int) -> float:
    """Return log2 of the number of such sets, in bytes and not rounded."""
    log_sets = math.lgamma(universe + 1) - math.lgamma(count + 1) - math.lgamma(universe - count + 1)
    return log_sets / math.log(2) / 8


def _random_set(universe: int, count: int, seed: int) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).choice(universe, count, replace=False))
