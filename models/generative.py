"""Generative prototypes: a Gaussian for each class and client, their mixture, and a head rebalanced on its draws.

Equation numbers are those of "Federated Class-Incremental Learning with Hierarchical Generative Prototypes".
Everything but `ClassGaussians.of_features` and `rebalance` is numpy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import torch

    from models.nets import Net

_ROWS_AT_A_TIME = 256

_MIN_VARIANCE = 1e-8
"""What every variance is raised by, so that no feature is fixed."""


class ClassGaussians(NamedTuple):
    """Means and unbiased variances, float32 [C, D], of classes' features, with their ids and samples, int64 [C]."""

    means_CD: np.ndarray
    variances_CD: np.ndarray
    classes: np.ndarray
    counts: np.ndarray

    @classmethod
    def of_features(cls, net: Net, x: torch.Tensor, y: torch.Tensor) -> ClassGaussians:
        """Return those of samples `x`, `y`, with the net in evaluation mode; a class of one sample has none."""
        from models.nets.net import feature_batches

        width, labels_B = net.head.in_features, y.cpu().numpy()
        parts = [batch.cpu().double().numpy() for batch in feature_batches(net, x)]
        features_BD = np.concatenate([np.zeros((0, width)), *parts])
        counts = np.bincount(labels_B)
        (classes,) = np.nonzero(counts > 1)
        of_class = [features_BD[labels_B == label] for label in classes]
        means = np.array([part.mean(axis=0) for part in of_class], np.float32)
        variances = np.array([part.var(axis=0, ddof=1) for part in of_class], np.float32)
        return cls(means.reshape(-1, width), variances.reshape(-1, width), classes, counts[classes])


class GenerativePrototypes:
    """The Gaussians of many classes and clients as one mixture: first a class, then a client, then a feature."""

    def __init__(self, means_ND: np.ndarray, variances_ND: np.ndarray, classes: np.ndarray, counts: np.ndarray) -> None:
        """Take Gaussians [N, D] of any clients, with the class of each and the samples behind it, [N]."""
        self.classes = np.unique(classes)
        self._means_ND = np.asarray(means_ND, np.float32)
        self._variances_ND = np.asarray(variances_ND, np.float32)
        self._class_of_row = classes
        self._counts = np.asarray(counts, np.float64)

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


class Rebalancing(NamedTuple):
    """How a head is trained on drawn features: SGD whose rate falls to 0 along a cosine, epoch by epoch."""

    epochs: int
    lr: float
    momentum: float
    batch_size: int
    logit_norm: float = 0.0
    """Above 0, logits are divided by their norm and by this."""


def rebalance(
    head_CH: np.ndarray, draw: Callable[[int], tuple[np.ndarray, np.ndarray]], how: Rebalancing
) -> tuple[np.ndarray, float]:
    """Train a linear head by cross-entropy on features that are drawn anew for each epoch.

    Args:
        head_CH: a row of weights, then the bias, for each class.
        draw: returns the features [B, D] and the rows of their classes [B] of an epoch, from 0.
        how: the training.

    Returns:
        The new head, float32, and the mean loss of the last epoch, NaN without any.
    """
    import torch

    head = torch.nn.Parameter(torch.from_numpy(np.array(head_CH, np.float32)))
    optimizer = torch.optim.SGD([head], lr=how.lr, momentum=how.momentum)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(1, how.epochs))
    loss = float("nan")
    for epoch in range(how.epochs):
        losses = [_step(head, optimizer, batch, how) for batch in _batches(*draw(epoch), how.batch_size)]
        schedule.step()
        loss = sum(losses) / len(losses)
    return head.detach().numpy(), loss


def _batches(features_BD: np.ndarray, labels_B: np.ndarray, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    import torch

    return zip(torch.from_numpy(features_BD).split(size), torch.from_numpy(labels_B).split(size), strict=True)


def _step(
    head: torch.nn.Parameter,
    optimizer: torch.optim.Optimizer,
    batch: tuple[torch.Tensor, torch.Tensor],
    how: Rebalancing,
) -> float:
    from torch.nn.functional import cross_entropy, linear, normalize

    features_BD, labels_B = batch
    logits_BC = linear(features_BD, head[:, :-1], head[:, -1])
    if how.logit_norm:
        logits_BC = normalize(logits_BC, dim=1) / how.logit_norm
    loss = cross_entropy(logits_BC, labels_B)  # Eq. (7)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
