"""The mixtures on a client: fitted to the features of a class, and sampled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from models import seeding
from models.methods.gfpl import Mixture, most_components

_MAX_ITERATIONS = 100
_LEAST_GAIN = 1e-3
"""Fitting ends when the mean log-likelihood of a sample grows by less."""
_LEAST_SHARE = 1e-30
"""Every component has at least this share in every sample, so that none is ever without any."""


class Fit(NamedTuple):
    """A diagonal Gaussian mixture: weights [G], means and variances [G, D], float64."""

    weights: torch.Tensor
    means: torch.Tensor
    variances: torch.Tensor

    def as_sent(self) -> Mixture:
        """Return it in single precision, with standard deviations."""
        arrays = (self.weights, self.means, self.variances.sqrt())
        return Mixture(*(array.numpy().astype(np.float32) for array in arrays))


def fit_classes(features_BD: torch.Tensor, labels_B: torch.Tensor, config: Any, seed: int) -> dict[int, Mixture]:
    """Return the mixture of each class among these features; `seed` keys where fitting starts."""
    features_BD, labels_B = features_BD.double().cpu(), labels_B.cpu()
    groups = {label: features_BD[labels_B == label] for label in labels_B.unique().tolist()}
    lone_D = torch.zeros(features_BD.shape[1], dtype=torch.float64)
    if config.single_sample == "pooled":
        lone_D = _pooled_variance(list(groups.values()))
    mixtures = {}
    for label, group_BD in groups.items():
        random = seeding.generator(seed, "mixture", label)
        fitted = fit(group_BD, most_components(len(group_BD), config), config.variance_floor, random)
        if len(group_BD) == 1:
            fitted = fitted._replace(variances=lone_D[None].clamp_min(config.variance_floor))
        mixtures[label] = fitted.as_sent()
    return mixtures


def fit(features_BD: torch.Tensor, num_components: int, variance_floor: float, random: np.random.Generator) -> Fit:
    """Return the mixture that expectation-maximisation makes of these features (float64, at least one)."""
    seeds = features_BD[_spread_rows(features_BD, num_components, random)]
    variance_D = features_BD.var(dim=0, correction=0).clamp_min(variance_floor)
    weights = torch.full((num_components,), 1 / num_components, dtype=torch.float64)
    return improved(features_BD, Fit(weights, seeds, variance_D.expand_as(seeds)), variance_floor)


def improved(features_BD: torch.Tensor, start: Fit, variance_floor: float) -> Fit:
    """Return the mixture at which expectation-maximisation arrives from `start`."""
    found, last = start, -math.inf
    for _ in range(_MAX_ITERATIONS):
        joint_BG = _log_joint(features_BD, found)
        found = _maximised(features_BD, joint_BG.softmax(dim=1) + _LEAST_SHARE, variance_floor)  # Eq. (5)
        likelihood = joint_BG.logsumexp(dim=1).mean().item()
        if likelihood - last < _LEAST_GAIN:
            break
        last = likelihood
    return found


def draw(mixtures: Mapping[int, Mixture], num_each: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return `num_each` samples of each class, float32 [B, D], and their class ids, int64 [B]: Eq. (4)."""
    drawn = []
    for weights, means_GD, deviations_GD in mixtures.values():
        shares = weights.astype(np.float64)
        rows = random.choice(len(shares), num_each, p=shares / shares.sum())
        noise = random.standard_normal((num_each, means_GD.shape[1]), np.float32)
        drawn.append(means_GD[rows] + deviations_GD[rows] * noise)
    return np.concatenate(drawn), np.repeat(np.array(list(mixtures), np.int64), num_each)


def _pooled_variance(groups: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the variance [D] inside those classes that have more than one sample, 0 if none has."""
    offsets = [group_BD - group_BD.mean(dim=0) for group_BD in groups if len(group_BD) > 1]
    return torch.cat(offsets).square().mean(dim=0) if offsets else torch.zeros_like(groups[0][0])


def _spread_rows(features_BD: torch.Tensor, count: int, random: np.random.Generator) -> list[int]:
    """Return rows to start from, each drawn in proportion to its squared distance to those before (k-means++)."""
    rows = [int(random.integers(len(features_BD)))]
    distances = torch.full((len(features_BD),), math.inf, dtype=torch.float64)
    while len(rows) < count:
        distances = distances.minimum((features_BD - features_BD[rows[-1]]).square().sum(dim=1))
        total = distances.sum().item()
        shares = (distances / total).numpy() if total > 0 else None
        rows.append(int(random.choice(len(features_BD), p=shares)))
    return rows


def _log_joint(features_BD: torch.Tensor, mixture: Fit) -> torch.Tensor:
    """Return the logarithm [B, G] of each component's weight times its density at each feature."""
    weights, means_GD, variances_GD = mixture
    scaled_GD = means_GD / variances_GD
    squares_BG = features_BD.square() @ (1 / variances_GD).T - 2 * features_BD @ scaled_GD.T
    constants_G = (means_GD * scaled_GD + variances_GD.log() + math.log(2 * math.pi)).sum(dim=1)
    return weights.log() - (squares_BG + constants_G) / 2


def _maximised(features_BD: torch.Tensor, shares_BG: torch.Tensor, variance_floor: float) -> Fit:
    """Return the mixture that explains the features best, given each component's share in each: Eq. (6)."""
    totals_G = shares_BG.sum(dim=0)
    normed_GB = (shares_BG / totals_G).T
    means_GD = normed_GB @ features_BD
    variances_GD = normed_GB @ features_BD.square() - means_GD.square()
    return Fit(totals_G / totals_G.sum(), means_GD, variances_GD.clamp_min(variance_floor))
