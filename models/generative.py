"""Generative prototypes: a Gaussian for each class and client, their mixture, and a head rebalanced on its draws.

Equation numbers are those of "Federated Class-Incremental Learning with Hierarchical Generative Prototypes".
All of it is numpy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np

from models.cross_entropy import cross_entropy
from models.optimizers import Sgd
from models.spec import NotNegative, NotNegativeReal, Positive, PositiveReal, Section, Share
from wire.payload import RecordError

_ROWS_AT_A_TIME = 256

_MIN_VARIANCE = 1e-8
"""What every variance is raised by, so that no feature is fixed."""

_MIN_NORM = 1e-12
"""What logits are divided by where their norm is smaller."""


class ClassGaussians(NamedTuple):
    """Means and unbiased variances, float32 [C, D], of classes' features, with their ids and samples, int64 [C]."""

    means_CD: np.ndarray
    variances_CD: np.ndarray
    classes: np.ndarray
    counts: np.ndarray

    @classmethod
    def of_features(cls, features_BD: np.ndarray, labels_B: np.ndarray) -> ClassGaussians:
        """Return those of features and their classes; a class of one sample has none."""
        width, counts = features_BD.shape[1], np.bincount(labels_B)
        (classes,) = np.nonzero(counts > 1)
        of_class = [features_BD[labels_B == label].astype(np.float64) for label in classes]
        means = np.array([part.mean(axis=0) for part in of_class], np.float32)
        variances = np.array([part.var(axis=0, ddof=1) for part in of_class], np.float32)
        return cls(means.reshape(-1, width), variances.reshape(-1, width), classes, counts[classes])


def check_gaussians(variances_CD: np.ndarray, counts: np.ndarray) -> None:
    """Refuse what `ClassGaussians` never has.

    Raises:
        RecordError: a negative variance, or a Gaussian of fewer than two samples.
    """
    if (variances_CD < 0).any():
        raise RecordError(f"field 'variances': expected none below 0, got {variances_CD.min()}")
    if (counts < 2).any():
        raise RecordError(f"field 'counts': expected at least 2 samples of each class, got {counts.min()}")


class GenerativePrototypes:
    """The Gaussians of many classes and clients as one mixture: first a class, then a client, then a feature."""

    def __init__(self, means_ND: np.ndarray, variances_ND: np.ndarray, classes: np.ndarray, counts: np.ndarray) -> None:
        """Take Gaussians [N, D] of any clients, with the class of each and the samples behind it, [N]."""
        self.classes = np.unique(classes)
        self._means_ND = np.asarray(means_ND, np.float32)
        self._variances_ND = np.asarray(variances_ND, np.float32)
        self._class_of_row = classes
        self._counts = np.asarray(counts, np.float64)

    def class_counts(self, num_classes: int) -> np.ndarray:
        """Return the samples behind each class of a label map, uint32 [num_classes], at most what that holds."""
        counts = np.bincount(self._class_of_row, self._counts, num_classes)
        return np.minimum(counts, np.iinfo(np.uint32).max).astype(np.uint32)

    def class_weights(self, weighting: Literal["counts", "equal"] = "counts") -> np.ndarray:
        """Return omega, float64 [C]: each class's share of all samples, or the same for all."""
        if weighting == "equal":
            return np.full(len(self.classes), 1 / len(self.classes))
        of_class = np.array([self._counts[self._class_of_row == label].sum() for label in self.classes])
        weights: np.ndarray = of_class / of_class.sum()
        return weights

    def client_weights(self, label: int) -> np.ndarray:
        """Return pi of one class, float64 [N]: each Gaussian's share of its samples, 0 for those of other classes."""
        of_class = self._counts * (self._class_of_row == label)
        weights: np.ndarray = of_class / of_class.sum()
        return weights

    def moments(
        self, scale: float = 1.0, weighting: Literal["counts", "equal"] = "counts"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance, float64 [D], of the features that `sample` draws with these arguments."""
        of_class = zip(self.classes, self.class_weights(weighting), strict=True)
        weights_N = sum(weight * self.client_weights(label) for label, weight in of_class)
        mean_D = weights_N @ self._means_ND
        within_ND = scale * (self._variances_ND + _MIN_VARIANCE)
        return mean_D, weights_N @ (within_ND + np.square(self._means_ND - mean_D))

    def standardized(self, mean_D: np.ndarray, deviation: float) -> GenerativePrototypes:
        """Return the mixture of the same features less a mean, over a deviation."""
        means_ND, variances_ND = (self._means_ND - mean_D) / deviation, self._variances_ND / deviation**2
        return GenerativePrototypes(means_ND, variances_ND, self._class_of_row, self._counts)

    def sample(
        self,
        num: int,
        random: np.random.Generator,
        scale: float = 1.0,
        weighting: Literal["counts", "equal"] = "counts",
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw features, float32 [num, D], and their classes, int64 [num], in random order.

        Args:
            num: how many.
            random: the source of the draws.
            scale: what variances are multiplied by.
            weighting: of the classes.
        """
        num_of_class = random.multinomial(num, self.class_weights(weighting))
        num_of_row = sum(
            random.multinomial(count, self.client_weights(label))
            for label, count in zip(self.classes, num_of_class, strict=True)
        )
        rows = random.permutation(np.repeat(np.arange(len(self._counts)), num_of_row))
        features = random.standard_normal((num, self._means_ND.shape[1]), dtype=np.float32)
        deviations_ND = np.sqrt(scale * (self._variances_ND + _MIN_VARIANCE), dtype=np.float32)
        for drawn_BD, rows_B in zip(_pieces(features), _pieces(rows), strict=True):
            drawn_BD *= deviations_ND[rows_B]
            drawn_BD += self._means_ND[rows_B]  # Eq. (6)
        return features, self._class_of_row[rows].astype(np.int64)


def _pieces(array: np.ndarray) -> list[np.ndarray]:
    """Return views of so many rows that they stay in a processor's cache."""
    return [array[begin : begin + _ROWS_AT_A_TIME] for begin in range(0, len(array), _ROWS_AT_A_TIME)]


class RebalancingConfig(Section, frozen=True):
    """How a server half rebalances a head: by SGD on drawn features, its rate falling to 0 along a cosine by epochs."""

    rebalance_epochs: NotNegative = 5
    rebalance_lr: PositiveReal = 0.01
    rebalance_momentum: Share = 0.9
    rebalance_batch_size: Positive = 256
    features_per_class: Positive = 256
    """Drawn in each epoch, on average over the classes."""
    variance_scale: PositiveReal = 3.0
    """What the variances of Eq. (6) are multiplied by."""
    class_weighting: Literal["counts", "equal"] = "counts"
    """Omega of Eq. (6)."""
    logit_norm: NotNegativeReal = 0.0
    """Above 0, the loss of Eq. (7) is taken over logits divided by their norm and by this."""


def rebalance_rows(
    head_CH: np.ndarray,
    mixture: GenerativePrototypes,
    config: RebalancingConfig,
    random: Callable[[int], np.random.Generator],
) -> tuple[np.ndarray, float]:
    """Train the rows of a mixture's classes against each other; the others stay as they are.

    Args:
        head_CH: a row of weights, then the bias, for each class.
        mixture: what features are drawn from.
        config: how.
        random: returns the source of an epoch's draws, from 0.

    Returns:
        The new head, float32, and the mean loss of the last epoch, NaN without any.
    """
    num_drawn = config.features_per_class * len(mixture.classes)

    def draw(epoch: int) -> tuple[np.ndarray, np.ndarray]:
        features_BD, labels_B = mixture.sample(num_drawn, random(epoch), config.variance_scale, config.class_weighting)
        return features_BD, np.searchsorted(mixture.classes, labels_B)

    made_CH = np.array(head_CH, np.float32)
    made_CH[mixture.classes], loss = rebalance(made_CH[mixture.classes], draw, config)
    return made_CH, loss


def rebalance(
    head_CH: np.ndarray, draw: Callable[[int], tuple[np.ndarray, np.ndarray]], config: RebalancingConfig
) -> tuple[np.ndarray, float]:
    """Train a linear head by cross-entropy on features that are drawn anew for each epoch.

    Args:
        head_CH: a row of weights, then the bias, for each class.
        draw: returns the features [B, D] and the rows of their classes [B] of an epoch, from 0.
        config: how.

    Returns:
        The new head, float32, and the mean loss of the last epoch, NaN without any.
    """
    head_CH = np.array(head_CH, np.float32)
    optimizer, num_epochs = Sgd(config.rebalance_lr, config.rebalance_momentum), config.rebalance_epochs
    loss = float("nan")
    for epoch in range(num_epochs):
        optimizer.lr = config.rebalance_lr * (1 + math.cos(math.pi * epoch / num_epochs)) / 2
        batches = _batches(*draw(epoch), config.rebalance_batch_size)
        losses = [_step(head_CH, optimizer, *batch, config.logit_norm) for batch in batches]
        loss = sum(losses) / len(losses)
    return head_CH, loss


def _batches(features_BD: np.ndarray, labels_B: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for begin in range(0, len(labels_B), size):
        yield features_BD[begin : begin + size], labels_B[begin : begin + size]


def _step(
    head_CH: np.ndarray, optimizer: Sgd, features_BD: np.ndarray, labels_B: np.ndarray, logit_norm: float
) -> float:
    logits_BC = features_BD @ head_CH[:, :-1].T + head_CH[:, -1]
    if logit_norm:
        norms_B1 = np.maximum(np.linalg.norm(logits_BC, axis=1, keepdims=True), _MIN_NORM)
        directions_BC = logits_BC / norms_B1
        loss, gradient_BC = cross_entropy(directions_BC / logit_norm, labels_B)  # Eq. (7)
        along_B1 = (gradient_BC * directions_BC).sum(axis=1, keepdims=True)
        gradient_BC = (gradient_BC - along_B1 * directions_BC) / (logit_norm * norms_B1)
    else:
        loss, gradient_BC = cross_entropy(logits_BC, labels_B)  # Eq. (7)
    by_head_CH = np.concatenate([gradient_BC.T @ features_BD, gradient_BC.sum(axis=0)[:, None]], axis=1)
    optimizer.step({"head": head_CH}, {"head": by_head_CH})
    return loss
