"""What both client halves of head calibration do in the same way, whatever computed the features."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.generative import ClassGaussians
from models.linear_rules import LinearRule
from models.methods.api import Client, ClientContext
from models.methods.headcal import Downlink, Uplink
from wire.payload import Record


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


class GlobalHeadClient(Client):
    """A client half that sends class statistics and holds the calibrated head."""

    def start(self, context: ClientContext) -> None:
        """Take up net and data; there is no calibrated head yet."""
        super().start(context)
        self._global = GlobalHead(self.spec.model.feature_dim)

    def receive(self, exchange: str, downlink: Downlink) -> None:
        """Install the calibrated head."""
        self._global.install(downlink)

    def uplink(self, exchange: str) -> Record:
        """Return the statistics of this client's features."""
        return statistics(self.train_features(), self.train_labels(), self.context)

    def by_global_head(self, features_BD: np.ndarray) -> np.ndarray:
        """Return the class, among those seen so far, that the calibrated head takes each feature for, [B]."""
        return self._global.rule(self.context.num_seen).predict(features_BD)

    def linear_rules(self) -> dict[str, LinearRule]:
        """Return those of the net, and the calibrated head."""
        return {**super().linear_rules(), "global_head": self._global.rule()}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is trained and the calibrated head."""
        return {**super().arrays(), **self._global.arrays()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up what was trained and the calibrated head."""
        super().load(self._global.load(arrays))


def statistics(features_ND: np.ndarray, labels_N: np.ndarray, context: ClientContext) -> Uplink:
    """Return what a client tells of its features: noised, if its context has a release for that."""
    if context.release is None:
        gaussians = ClassGaussians.of_features(features_ND, labels_N)
    else:
        means_CD, variances_CD = context.release.class_moments(features_ND, labels_N)
        (told,) = np.nonzero(context.class_counts > 1)
        gaussians = ClassGaussians(means_CD[told], variances_CD[told], told, context.class_counts[told])
    counts, classes = gaussians.counts.astype(np.uint32), gaussians.classes.astype(np.uint16)
    return Uplink(gaussians.means_CD, gaussians.variances_CD, counts, classes)
