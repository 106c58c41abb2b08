"""The client half of FedProto over a frozen backbone, without torch: see `client` for what it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.linear_rules import LinearRule, nearest_prototype
from models.methods.api import ClientContext
from models.methods.fedproto import Downlink, Uplink
from models.methods.numpy_client import NumpyClient
from wire.payload import Record


class FedProtoNumpyClient(NumpyClient):
    """Holds the last global prototypes; a class without one has no regulariser and is never predicted by them."""

    def start(self, context: ClientContext) -> None:
        """Take up net and data; no class has a global prototype yet."""
        super().start(context)
        self._install(np.zeros((0, self.spec.model.feature_dim), np.float32), np.zeros(0, np.uint16))

    def receive(self, exchange: str, downlink: Downlink) -> None:
        """Install the global prototypes."""
        self._install(downlink.prototypes, downlink.classes)

    def feature_term(self, features_BD: np.ndarray, labels_B: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Return the weighted distance to the global prototypes, and its gradient."""
        weight = self.config.regularizer_weight
        rows_B = self._row_of_class[labels_B]
        known_B = rows_B >= 0
        if weight == 0 or not known_B.any():
            return None
        differences_BD = np.zeros_like(features_BD)
        differences_BD[known_B] = features_BD[known_B] - self._prototypes_CD[rows_B[known_B]]
        scale = weight / differences_BD.size
        return float(scale * np.square(differences_BD).sum()), np.float32(2 * scale) * differences_BD  # Eq. (7)

    def uplink(self, exchange: str) -> Record:
        """Return the local prototypes, Eq. (3)."""
        means = self.local_prototypes()
        return Uplink(means.prototypes_CD, means.counts.astype(np.uint32), means.classes.astype(np.uint16))

    def predict(self, rule: str, features_BD: Any) -> Any:
        """Predict the class of the nearest global prototype."""
        if rule != "global_prototype":
            return super().predict(rule, features_BD)
        return nearest_prototype(self._prototypes_CD, self._classes).predict(features_BD)

    def linear_rules(self) -> dict[str, LinearRule]:
        """Return those of the net, and the nearest global prototype."""
        return {**super().linear_rules(), "global_prototype": nearest_prototype(self._prototypes_CD, self._classes)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is trained and the last global prototypes."""
        prototypes_CD, classes = self._prototypes_CD.copy(), self._classes.copy()
        return {**super().arrays(), "global_prototypes": prototypes_CD, "global_classes": classes}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up what was trained and global prototypes."""
        super().load(arrays)
        self._install(arrays["global_prototypes"], arrays["global_classes"])

    def _install(self, prototypes_CD: np.ndarray, classes: np.ndarray) -> None:
        self._prototypes_CD: np.ndarray = np.array(prototypes_CD, np.float32)
        self._classes: np.ndarray = np.array(classes, np.uint16)
        self._row_of_class = np.full(self.spec.num_classes, -1)
        self._row_of_class[self._classes] = np.arange(len(self._classes))
