"""The server half of HGP: averages, and a head rebalanced on what the clients' Gaussians generate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from models import seeding
from models.gaussian_table import Gaussian, GaussianTable, sent_gaussians
from models.generative import rebalance_rows
from models.methods.api import RoundFailedError, Server, Update, expect_finite
from models.methods.fedavg.server import add_named
from models.methods.hgp import Downlink
from models.methods.hgp.feature_bias import feature_bias
from models.nets.frozen_backbone import constant, weights_digest
from models.prototypes import WeightedMean
from models.spec import RunSpec
from wire.payload import Record

_NOTHING = np.zeros(0, np.float32)


class HgpServer(Server):
    """Holds prompt (or net), the head of the classes seen, and each client's last Gaussian of each class."""

    def __init__(self, spec: RunSpec, config: Any) -> None:
        super().__init__(spec, config)
        self._plan = spec.plan
        self.load({})

    def constants(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the digest of the frozen backbone, an empty one where the run's seed makes it."""
        return constant(weights_digest(self.spec.model.weights))

    def configure(self, round: int, exchange: str) -> Record:
        """Return prompt and head, empty before the first average; what another run has left may know later tasks."""
        seen = self._plan.classes_seen(self._plan.task_of(round))
        return Downlink(self._parameters, self._buffers, self._head_SH[: seen.stop])

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Average prompt and head by train samples, take up the new Gaussians, and rebalance the head."""
        parameters, buffers, head = WeightedMean(), WeightedMean(), WeightedMean()
        sent: list[tuple[str, int, Gaussian]] = []
        num_updates = 0
        for update in updates:
            num_updates += 1
            record, weight = update.record, int(update.record.num_train[0])
            if weight:
                add_named(parameters, update.client, "parameters", record.parameters, weight)
                add_named(buffers, update.client, "buffers", record.buffers, weight)
                add_named(head, update.client, "head", record.head, weight)
                sent += sent_gaussians(update)
        if not parameters.weight:
            raise RoundFailedError(f"round {round}: none of {num_updates} updates has a train sample")
        self._parameters = parameters.mean().astype(np.float32)  # Eq. (3)
        self._buffers = buffers.mean().astype(np.float32)  # Eq. (3)
        self._put_rows(round, head.mean().astype(np.float32))  # Eq. (3)
        for row in sent:
            self._gaussians.put(*row)
        loss = self._rebalance(round)
        told = {"feature_bias": _feature_bias(sent), "rebalancing_loss": loss}
        return {"num_updates": float(num_updates), "num_train": parameters.weight, **told}

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the state."""
        own = {"parameters": self._parameters, "buffers": self._buffers, "head": self._head_SH}
        return {**own, **self._gaussians.arrays()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up a state."""
        width = self.spec.model.feature_dim
        self._parameters = arrays.get("parameters", _NOTHING)
        self._buffers = arrays.get("buffers", _NOTHING)
        self._head_SH = arrays.get("head", np.zeros((0, width + 1), np.float32))
        self._gaussians = GaussianTable(width)
        self._gaussians.load(arrays)

    def _put_rows(self, round: int, rows_TH: np.ndarray) -> None:
        """Put the current task's rows into the head, which reaches to the last of its classes."""
        classes = self._plan.classes(self._plan.task_of(round))
        head_SH = np.zeros((classes.stop, rows_TH.shape[1]), np.float32)
        head_SH[: len(self._head_SH)] = self._head_SH[: classes.stop]
        head_SH[classes.start :] = rows_TH
        self._head_SH = head_SH

    def _rebalance(self, round: int) -> float:
        """Retrain the rows that are to be rebalanced, and return the last epoch's loss, NaN if there was none."""
        config, classes = self.config, self._plan.classes(self._plan.task_of(round))
        first = 0 if config.rebalance_old else classes.start
        chosen = range(first, classes.stop if config.rebalance_current else classes.start)
        mixture = self._gaussians.mixture(chosen)
        if mixture is None:
            return float("nan")
        draws = partial(seeding.generator, self.spec.seed, "server", round, "rebalancing")
        head_SH, loss = rebalance_rows(self._head_SH, mixture, config, draws)
        self._head_SH = expect_finite(head_SH, round, "the rebalanced head", "[method] rebalance_lr")
        return loss


def _feature_bias(sent: list[tuple[str, int, Gaussian]]) -> float:
    means: dict[int, list[np.ndarray]] = defaultdict(list)
    for _, label, gaussian in sent:
        means[label].append(gaussian.mean_D)
    return feature_bias(means)
