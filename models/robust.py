"""Means that a few clients cannot move far: each coordinate's trimmed mean or median over the clients that sent it.

Both weigh a client by no more than the median weight of those clients, so that nobody counts for much by claiming many
samples. What each withstands, of K clients with a class, as long as the others are honest:

    mean            nothing: one client moves it as far as it likes
    trimmed_mean    K // 5 clients: each coordinate stays between the honest clients' smallest and largest
    median          fewer than K / 4, or than K / 2 where all weigh the same: likewise, and most honest ones are nearer

Below `MIN_HOLDERS` clients it is the plain mean, for there is no telling who of so few is wrong.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Literal

import numpy as np

from models.prototypes import ClassSums, WeightedMean
from models.spec import ConfigError, RunSpec

Aggregation = Literal["mean", "trimmed_mean", "median"]

MIN_HOLDERS = 5
"""So many clients must have sent what is to be more than a mean; of so many, one is trimmed at either end."""

_MAX_COLUMNS = 1 << 16
"""How many coordinates of a long array are sorted at a time."""


def class_sums(aggregation: Aggregation, num_classes: int, feature_dim: int) -> ClassSums:
    """Return what takes in prototypes, class by class; `mean` holds none of them."""
    if aggregation == "mean":
        return ClassSums(num_classes, feature_dim)
    return RobustSums(num_classes, feature_dim, aggregation)


def weighted_mean(aggregation: Aggregation) -> WeightedMean:
    """Return what takes in whole arrays; `mean` holds none of them."""
    return WeightedMean() if aggregation == "mean" else RobustMean(aggregation)


def check_aggregation(spec: RunSpec, config: Any) -> None:
    """Refuse a setting that can never take effect.

    Raises:
        ConfigError: the run has too few clients for anything but the mean.
    """
    if config.aggregation != "mean" and spec.data.num_clients < MIN_HOLDERS:
        expected = f"expected 'mean', as no class has {MIN_HOLDERS} clients with data.num_clients = "
        raise ConfigError(f"[method] aggregation = {config.aggregation!r}: {expected}{spec.data.num_clients}")


class RobustSums(ClassSums):
    """Sums whose `means` are robust where a class has `MIN_HOLDERS`; holds all prototypes that it takes in."""

    def __init__(self, num_classes: int, feature_dim: int, aggregation: Aggregation) -> None:
        super().__init__(num_classes, feature_dim)
        self._feature_dim = feature_dim
        self._held: dict[int, RobustMean] = defaultdict(lambda: RobustMean(aggregation))

    def add(self, prototypes_CD: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> None:
        """Take in one client's prototypes; each class stands in `classes` once at most."""
        for prototype_D, label, weight in zip(prototypes_CD, classes.tolist(), weights.tolist(), strict=True):
            if weight > 0:
                self._held[label].add(prototype_D, weight)
                self.weights[label] += weight

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means float64 [C, D] and ids of the classes whose weight is not 0, ascending."""
        (classes,) = np.nonzero(self.weights)
        means = [self._held[label].mean() for label in classes.tolist()]
        return np.reshape(means, (len(classes), self._feature_dim)), classes

    def metrics(self) -> dict[str, float]:
        """Tell of how many classes the plain mean was taken."""
        return {"num_plain_means": float(sum(held.is_plain for held in self._held.values()))}


class RobustMean(WeightedMean):
    """A mean of equally shaped arrays that is robust where there are `MIN_HOLDERS`; holds all that it takes in."""

    def __init__(self, aggregation: Aggregation) -> None:
        super().__init__()
        self._aggregation = aggregation
        self._arrays: list[np.ndarray] = []
        self._weights: list[float] = []

    @property
    def is_plain(self) -> bool:
        """Whether there are too few arrays for anything but their mean."""
        return len(self._arrays) < MIN_HOLDERS

    def add(self, array: np.ndarray, weight: float) -> None:
        """Take in one array, whose weight is above 0.

        Raises:
            ValueError: its shape differs from the first one's.
        """
        super().add(array, weight)
        self._arrays.append(np.array(array))
        self._weights.append(weight)

    def mean(self) -> np.ndarray:
        """Return the mean, float64; there must be an array."""
        if self.is_plain:
            return super().mean()
        rows, weights_K = [array.ravel() for array in self._arrays], np.array(self._weights, np.float64)
        means = [
            robust_mean(np.stack([row[begin : begin + _MAX_COLUMNS] for row in rows]), weights_K, self._aggregation)
            for begin in range(0, max(rows[0].size, 1), _MAX_COLUMNS)
        ]
        return np.concatenate(means).reshape(self._arrays[0].shape)

    def metrics(self) -> dict[str, float]:
        """Tell whether the plain mean was taken."""
        return {"num_plain_means": float(self.is_plain)}


def robust_mean(values_KD: np.ndarray, weights_K: np.ndarray, aggregation: Aggregation) -> np.ndarray:
    """Return the trimmed mean or the median of each column, float64 [D]; all weights are above 0."""
    capped_K = np.minimum(weights_K, np.median(weights_K))
    order_KD = values_KD.argsort(axis=0, kind="stable")
    ascending_KD = np.take_along_axis(values_KD, order_KD, axis=0).astype(np.float64)
    take = _trimmed_mean if aggregation == "trimmed_mean" else _median
    return take(ascending_KD, capped_K[order_KD])


def _trimmed_mean(ascending_KD: np.ndarray, weights_KD: np.ndarray) -> np.ndarray:
    num_trimmed = len(ascending_KD) // MIN_HOLDERS
    kept = slice(num_trimmed, len(ascending_KD) - num_trimmed)
    mean_D: np.ndarray = np.average(ascending_KD[kept], axis=0, weights=weights_KD[kept])
    return mean_D


def _median(ascending_KD: np.ndarray, weights_KD: np.ndarray) -> np.ndarray:
    """Return where half of the weight is reached, or the middle of two such values."""
    reached_KD = weights_KD.cumsum(axis=0)
    half_D = reached_KD[-1] / 2
    columns = np.arange(len(half_D))
    lower_D = ascending_KD[(reached_KD >= half_D).argmax(axis=0), columns]
    middle_D: np.ndarray = (lower_D + ascending_KD[(reached_KD > half_D).argmax(axis=0), columns]) / 2
    return middle_D
