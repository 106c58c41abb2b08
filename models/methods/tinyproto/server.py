"""The server half of TinyProto over FedProto: means of compressed prototypes, or sums of scaled ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from models.methods.api import Server, Update
from models.methods.fedproto.server import FedProtoServer
from models.methods.tinyproto import Downlink, kept_dim
from models.methods.tinyproto.aps import aggregation_factors, scaling_constant
from models.methods.tinyproto.cps import held_masks, smallest_distance, write_masks
from models.prototypes import ClassSums
from wire.payload import Record


class SparseServer(Server):
    """What TinyProto adds to either base: the masks and mu, both the same for the whole run."""

    masks: np.ndarray
    """The features that each class keeps, int64 [C, S]: part of the state, for its prototypes are in their terms."""

    def constants(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the masks."""
        return {"masks": write_masks(self.masks, self.spec.model.feature_dim)}

    @property
    def mu(self) -> float:
        """The scaling constant."""
        return scaling_constant(self.config, self.spec.num_classes, self.num_train)

    def take_masks(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up the masks of a state; before round 1 they are drawn from the run's seed."""
        self.masks = held_masks(arrays, self.spec, self.config)
        self._metrics = {"smallest_mask_distance": float(smallest_distance(self.masks, self.spec.model.feature_dim))}

    def with_masks(self, metrics: Mapping[str, float]) -> Mapping[str, float]:
        """Return metrics and how far apart the closest two masks are, which varies with the seed."""
        return {**metrics, **self._metrics}


class TinyProtoServer(SparseServer, FedProtoServer):
    """Holds the last compressed global prototype of every class that some client has sent."""

    @property
    def prototype_dim(self) -> int:
        """The entries of a compressed prototype."""
        return kept_dim(self.config, self.spec.model.feature_dim)

    def configure(self, round: int, exchange: str) -> Record:
        """Return all known global prototypes."""
        return Downlink(self._prototypes_CD, self._classes, self.mu)

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the global prototypes, their classes and the masks."""
        return {**super().arrays(), "masks": self.constants()["masks"]["positions"]}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up masks and global prototypes."""
        self.take_masks(arrays)
        super().load(arrays)

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Take the mean or the sum of what has come, class by class."""
        return self.with_masks(super().aggregate(round, exchange, updates))

    def weights(self, record: Any) -> np.ndarray:
        """Return equal weights: what a prototype stands for is in its scale."""
        return np.ones(len(record.classes))

    def combine(self, sums: ClassSums, num_train: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the global prototypes of this round's classes."""
        means_CS, classes = sums.means()  # Eq. (9), (10)
        factors_C = aggregation_factors(self.config, sums.weights[classes], self.num_train, num_train)
        return means_CS * factors_C[:, None], classes
