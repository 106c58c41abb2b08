"""Fusing the components that several clients sent of one class, in numpy and float64.

The Bhattacharyya distance of diagonal Gaussians is a sum over dimensions without a negative term. So it is added up
block by block, and whatever has reached the threshold is left out of the blocks that follow.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

_FIRST_BLOCK = 32
"""Dimensions of the first block; each further one is twice as wide."""


class Components(NamedTuple):
    """Gaussians of one class: weights [G] in samples, means and variances [G, D], float64."""

    weights: np.ndarray
    means: np.ndarray
    variances: np.ndarray


def bhattacharyya(
    mean_D: np.ndarray, variance_D: np.ndarray, means_GD: np.ndarray, variances_GD: np.ndarray
) -> np.ndarray:
    """Return the distance [G] of one diagonal Gaussian to each of the others."""
    sums_GD = variances_GD + variance_D
    terms_GD = np.square(means_GD - mean_D) / sums_GD + np.log(np.square(sums_GD) / (4 * variance_D * variances_GD))
    distances: np.ndarray = np.maximum(terms_GD.sum(axis=1) / 4, 0)  # Eq. (8), each term as in Eq. (7)
    return distances


def fuse(components: Components, threshold: float, linkage: Literal["leader", "complete"]) -> Components:
    """Return the fused components of one class, in the order of their seeds; the weights must be above 0.

    Ties of weight are broken by the order in which the components stand.
    """
    clusters = _clusters(components, threshold, linkage)
    merged = (_merged(*(array[rows] for array in components)) for rows in clusters)
    return Components(*map(np.array, zip(*merged, strict=True)))


def _clusters(components: Components, threshold: float, linkage: str) -> list[np.ndarray]:
    """Return the rows of each cluster, its seed first: Algorithm 1, lines 1 to 11."""
    clusters = []
    taken = np.zeros(len(components.weights), bool)
    free = np.argsort(-components.weights, kind="stable")
    while free.size:
        members, near = [free[:1]], _near(components, free[0], free[1:], threshold)
        while linkage == "complete" and near.size:
            members.append(near[:1])
            near = _near(components, near[0], near[1:], threshold)
        clusters.append(np.concatenate([*members, near]))
        taken[clusters[-1]] = True
        free = free[~taken[free]]
    return clusters


def _near(components: Components, seed: int, rows: np.ndarray, threshold: float) -> np.ndarray:
    """Return those rows whose distance to the seed is below the threshold, in their order."""
    _, means_GD, variances_GD = components
    distances = np.zeros(len(rows))
    begin, end = 0, _FIRST_BLOCK
    while rows.size and begin < means_GD.shape[1]:
        mean_D, variance_D = means_GD[seed, begin:end], variances_GD[seed, begin:end]
        distances += bhattacharyya(mean_D, variance_D, means_GD[rows, begin:end], variances_GD[rows, begin:end])
        is_near = distances < threshold
        rows, distances = rows[is_near], distances[is_near]
        begin, end = end, end + 2 * (end - begin)
    return rows


def _merged(
    weights: np.ndarray, means_GD: np.ndarray, variances_GD: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return weight, mean [D] and variance [D] of the mixture of these components; a single one stays as it is."""
    if len(weights) == 1:
        return weights[0], means_GD[0], variances_GD[0]
    total = weights.sum()  # Algorithm 1, line 13
    shares_G1 = weights[:, None] / total
    mean_D = (shares_G1 * means_GD).sum(axis=0)  # line 14
    return total, mean_D, (shares_G1 * (variances_GD + np.square(means_GD - mean_D))).sum(axis=0)  # line 15
