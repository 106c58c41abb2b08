"""Class means of features, their weighted means over clients, and the class of the nearest one.

Everything but `local_prototypes` and `nearest_class` is numpy alone, for server halves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import torch

    from models.nets import Net

_MAX_ENTRIES = 1 << 22
"""How many differences `nearest_class` holds at a time: 16 MiB of float32."""


class LocalPrototypes(NamedTuple):
    """Mean features of the classes that are there: float32 [C, D], class ids int64 [C] ascending, samples int64 [C]."""

    prototypes_CD: np.ndarray
    classes: np.ndarray
    counts: np.ndarray


class WeightedMean:
    """A running weighted mean of equally shaped arrays, in float64."""

    def __init__(self) -> None:
        self.weight = 0.0
        self._sum: np.ndarray | None = None

    def add(self, array: np.ndarray, weight: float) -> None:
        """Take in one array.

        Raises:
            ValueError: its shape differs from the first one's.
        """
        if self._sum is None:
            self._sum = np.zeros(array.shape, np.float64)
        if array.shape != self._sum.shape:
            raise ValueError(f"expected shape {self._sum.shape}, got {array.shape}")
        self._sum += np.asarray(array, np.float64) * weight
        self.weight += weight

    def mean(self) -> np.ndarray:
        """Return the mean, float64; the total weight must not be 0."""
        assert self._sum is not None
        assert self.weight > 0
        return self._sum / self.weight

    def metrics(self) -> dict[str, float]:
        """Return what a round's metrics are to tell of how the mean was taken."""
        return {}


class ClassSums:
    """Running weighted sums of prototypes per class, in float64, and the sum of each class's `weights` [C]."""

    def __init__(self, num_classes: int, feature_dim: int) -> None:
        self._sums_CD = np.zeros((num_classes, feature_dim), np.float64)
        self.weights = np.zeros(num_classes, np.float64)

    def add(self, prototypes_CD: np.ndarray, classes: np.ndarray, weights: np.ndarray) -> None:
        """Take in one client's prototypes; each class stands in `classes` once at most."""
        weights = np.asarray(weights, np.float64)
        self._sums_CD[classes] += np.asarray(prototypes_CD, np.float64) * weights[:, None]
        self.weights[classes] += weights

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means float64 [C, D] and ids of the classes whose weight is not 0, ascending."""
        (classes,) = np.nonzero(self.weights)
        return self._sums_CD[classes] / self.weights[classes, None], classes

    def metrics(self) -> dict[str, float]:
        """Return what a round's metrics are to tell of how the means were taken."""
        return {}


def local_prototypes(net: Net, x: torch.Tensor, y: torch.Tensor, num_classes: int) -> LocalPrototypes:
    """Return the mean feature of each class among samples `x`, `y`, with the net in evaluation mode."""
    import torch

    from models.nets.net import feature_batches

    sums_CD = torch.zeros(num_classes, net.head.in_features, dtype=torch.float64)
    begin = 0
    for features_BD in feature_batches(net, x):
        y_B = y[begin : begin + len(features_BD)].cpu()
        sums_CD.index_add_(0, y_B, features_BD.cpu().double())
        begin += len(features_BD)
    counts = np.bincount(y.cpu().numpy(), minlength=num_classes)
    (classes,) = np.nonzero(counts)
    means_CD = sums_CD.numpy()[classes] / counts[classes, None]
    return LocalPrototypes(means_CD.astype(np.float32), classes, counts[classes])


def class_means(features_ND: np.ndarray, labels_N: np.ndarray, num_classes: int) -> LocalPrototypes:
    """Return the mean of each class's features."""
    counts = np.bincount(labels_N, minlength=num_classes)
    (classes,) = np.nonzero(counts)
    means = [features_ND[labels_N == label].mean(axis=0, dtype=np.float64) for label in classes]
    means_CD = np.array(means, np.float32).reshape(-1, features_ND.shape[1])
    return LocalPrototypes(means_CD, classes, counts[classes])


class PrototypeTable:
    """Prototypes on a client's device, found by the classes of samples; a class may have none."""

    def __init__(self, prototypes_CD: np.ndarray, classes: np.ndarray, num_classes: int, device: torch.device) -> None:
        """Take prototypes in any real dtype and their class ids, of a label map of so many classes."""
        import torch

        self.classes = torch.from_numpy(classes.astype(np.int64)).to(device)
        self.prototypes_CD = torch.from_numpy(np.array(prototypes_CD, np.float32)).to(device)
        self._row_of_class = torch.full((num_classes,), -1, dtype=torch.int64, device=device)
        self._row_of_class[self.classes] = torch.arange(len(classes), device=device)

    def targets(self, labels_B: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the prototypes of samples' classes [B, D], and for which samples there is one [B]; others get any.

        There must be a prototype of some class.
        """
        rows_B = self._row_of_class[labels_B]
        return self.prototypes_CD[rows_B.clamp_min(0)], rows_B >= 0

    def nearest(self, features_BD: torch.Tensor) -> torch.Tensor:
        """Return the class of the nearest prototype for each feature, -1 if there is none."""
        return nearest_class(features_BD, self.prototypes_CD, self.classes)


def nearest_class(features_BD: torch.Tensor, prototypes_CD: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Return the class of the nearest prototype (squared distance) for each feature, -1 if there is no prototype."""
    import torch

    if not len(classes):
        return torch.full((len(features_BD),), -1, dtype=torch.int64, device=features_BD.device)
    rows = max(1, _MAX_ENTRIES // prototypes_CD.numel())
    nearest_B = torch.empty(len(features_BD), dtype=torch.int64, device=features_BD.device)
    for chunk_BD, found_B in zip(features_BD.split(rows), nearest_B.split(rows), strict=True):
        # A result of its own would keep the memory of its differences from being used again by the next ones.
        found_B[:] = (chunk_BD[:, None] - prototypes_CD).square_().sum(dim=2).argmin(dim=1)
    return classes[nearest_B]
