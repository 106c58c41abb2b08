"""What both client halves of head calibration do in the same way, whatever computed the features."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.generative import ClassGaussians
from models.linear_rules import LinearRule
from models.methods.api import ClientContext
from models.methods.headcal import Downlink, Uplink


class GlobalHead:
    """The calibrated head as a client holds it, which knows no class before one has come."""

    def __init__(self, feature_dim: int) -> None:
        self._head_CH = np.zeros((0, feature_dim + 1), np.float32)
        self._counts = np.zeros(0, np.uint32)

    def install(self, downlink: Downlink) -> None:
        """Take up what came."""
        self._head_CH, self._counts = np.array(downlink.head, np.float32), np.array(downlink.counts, np.uint32)

    def rule(self, num_seen: int | None = None) -> LinearRule:
        """Return the rows of those classes, among the first `num_seen`, that the head knows."""
        (classes,) = np.nonzero(self._counts[:num_seen])
        return LinearRule(self._head_CH[classes, :-1], self._head_CH[classes, -1], classes)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state."""
        return {"global_head": self._head_CH.copy(), "global_counts": self._counts.copy()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Take up a state, and return those arrays that are not of it."""
        self._head_CH, self._counts = arrays["global_head"], arrays["global_counts"]
        return {name: array for name, array in arrays.items() if name not in ("global_head", "global_counts")}


def statistics(features_ND: np.ndarray, labels_N: np.ndarray, context: ClientContext | None = None) -> Uplink:
    """Return what a client tells of its features: noised, if its context has a release for that."""
    gaussians = ClassGaussians.of_features(features_ND, labels_N)
    if context is not None and context.release is not None:
        means_CD, variances_CD = context.release.class_moments(features_ND, labels_N)
        (told,) = np.nonzero(context.class_counts > 1)
        gaussians = ClassGaussians(means_CD[told], variances_CD[told], told, context.class_counts[told])
    counts, classes = gaussians.counts.astype(np.uint32), gaussians.classes.astype(np.uint16)
    return Uplink(gaussians.means_CD, gaussians.variances_CD, counts, classes)
