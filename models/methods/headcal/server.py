"""The server half of head calibration: the clients' Gaussians, and the head that their draws train."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from models import seeding
from models.gaussian_table import Gaussian, GaussianTable, sent_gaussians
from models.generative import rebalance_rows
from models.methods.api import RoundFailedError, Server, Update, expect_finite
from models.methods.headcal import Downlink
from models.nets.frozen_backbone import Constants, constant, weights_digest
from models.spec import RunSpec
from wire.payload import Record


class HeadcalServer(Server):
    """Holds each client's last Gaussian of each class, and the head."""

    def __init__(self, spec: RunSpec, config: Any) -> None:
        super().__init__(spec, config)
        self.load({})

    def constants(self) -> Constants:
        """Return the digest of the extractor's file, where it has one."""
        weights = self.spec.model.weights
        return constant(weights_digest(weights)) if weights else super().constants()

    def configure(self, round: int, exchange: str) -> Record:
        """Return the head, empty before there is one."""
        return Downlink(self._head_CH, self._counts)

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Take up the new Gaussians, and train a head on what all of them generate."""
        num_updates = 0
        sent: list[tuple[str, int, Gaussian]] = []
        for update in updates:
            num_updates += 1
            sent += sent_gaussians(update)
        if not sent:
            raise RoundFailedError(f"round {round}: none of {num_updates} updates has a class with two samples")
        for row in sent:
            self._gaussians.put(*row)
        loss = self._calibrate(round)
        return {"num_updates": float(num_updates), "num_classes": float((self._counts > 0).sum()), "loss": loss}

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return Gaussians and head."""
        return {"head": self._head_CH, "head_counts": self._counts, **self._gaussians.arrays()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up Gaussians and head."""
        width = self.spec.model.feature_dim
        self._head_CH = arrays.get("head", np.zeros((0, width + 1), np.float32))
        self._counts = arrays.get("head_counts", np.zeros(0, np.uint32))
        self._gaussians = GaussianTable(width)
        self._gaussians.load(arrays)

    def _calibrate(self, round: int) -> float:
        """Train the head from zeros, and return the last epoch's loss."""
        mixture = self._gaussians.mixture(range(self.spec.num_classes))
        assert mixture is not None
        mean_D, variance_D = mixture.moments(self.config.variance_scale, self.config.class_weighting)
        deviation = float(np.sqrt(variance_D.mean()))
        zeros_CH = np.zeros((self.spec.num_classes, self.spec.model.feature_dim + 1), np.float32)
        draws = partial(seeding.generator, self.spec.seed, "server", round, "rebalancing")
        head_CH, loss = rebalance_rows(zeros_CH, mixture.standardized(mean_D, deviation), self.config, draws)
        plain_CH = of_plain_features(head_CH, mean_D, deviation)
        self._head_CH = expect_finite(plain_CH, round, "the calibrated head", "[method] rebalance_lr")
        self._counts = mixture.class_counts(self.spec.num_classes)
        return loss


def of_plain_features(head_CH: np.ndarray, mean_D: np.ndarray, deviation: float) -> np.ndarray:
    """Return the head [C, D + 1] that scores features as this one scores them less a mean, over a deviation."""
    weights_CD = head_CH[:, :-1] / deviation
    return np.concatenate([weights_CD, head_CH[:, -1:] - weights_CD @ mean_D[:, None]], axis=1)
