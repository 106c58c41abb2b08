"""The server half of FedProto: the weighted mean of the local prototypes, class by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from models.methods.api import RoundFailedError, Server, Update, expect_finite
from models.methods.fedproto import Downlink
from models.prototypes import ClassSums
from models.robust import class_sums
from models.spec import RunSpec
from wire.payload import Record


class FedProtoServer(Server):
    """Holds the last global prototype of every class that some client has sent."""

    def __init__(self, spec: RunSpec, config: Any) -> None:
        super().__init__(spec, config)
        self.load({})

    @property
    def prototype_dim(self) -> int:
        """The entries of a prototype as it travels."""
        return self.spec.model.feature_dim

    def configure(self, round: int, exchange: str) -> Record:
        """Return all known global prototypes."""
        return Downlink(self._prototypes_CD, self._classes)

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Combine each class over the clients that sent it; a class that nobody sent stays as it is."""
        sums = class_sums(self.config.aggregation, self.spec.num_classes, self.prototype_dim)
        num_updates = num_train = 0
        for update in updates:
            num_updates += 1
            num_train += update.num_train
            sums.add(update.record.prototypes, update.record.classes, self.weights(update.record))
        if not sums.weights.any():
            raise RoundFailedError(f"round {round}: none of {num_updates} updates has a prototype")
        global_CD, classes = self.combine(sums, num_train)
        self._install(expect_finite(global_CD, round, "the global prototypes", "[training] lr"), classes)
        return {"num_updates": float(num_updates), "num_classes": float(len(classes)), **sums.metrics()}

    def weights(self, record: Any) -> np.ndarray:
        """Return how much each prototype of an uplink counts, [C]."""
        weights: np.ndarray = record.counts if self.config.weighting == "counts" else record.counts > 0
        return weights

    def combine(self, sums: ClassSums, num_train: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the global prototypes [C, D] and classes that follow from the uplinks of clients with `num_train`."""
        return sums.means()  # Eq. (6)

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the global prototypes and their classes."""
        return {"prototypes": self._prototypes_CD, "classes": self._classes}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up global prototypes."""
        self._prototypes_CD = arrays.get("prototypes", np.zeros((0, self.prototype_dim), np.float32))
        self._classes = arrays.get("classes", np.zeros(0, np.uint16))

    def _install(self, global_CD: np.ndarray, classes: np.ndarray) -> None:
        latest = dict(zip(self._classes.tolist(), self._prototypes_CD, strict=True))
        latest.update(zip(classes.tolist(), global_CD, strict=True))
        self._classes = np.array(sorted(latest), np.uint16)
        self._prototypes_CD = np.stack([latest[label] for label in sorted(latest)])
