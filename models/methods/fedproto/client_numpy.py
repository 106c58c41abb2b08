"""The client half of FedProto over a frozen backbone, without torch: see `client` for what it does."""

from __future__ import annotations

from typing import Any

import numpy as np

from models.linear_rules import nearest_prototype
from models.methods.fedproto.global_prototypes import GlobalPrototypesClient
from models.methods.numpy_client import NumpyClient


class FedProtoNumpyClient(GlobalPrototypesClient, NumpyClient):
    """Trains what numpy can."""

    def install(self, prototypes_CD: np.ndarray, classes: np.ndarray) -> None:
        """Hold these in place of the last ones, by class too."""
        super().install(prototypes_CD, classes)
        self._row_of_class = np.full(self.spec.num_classes, -1)
        self._row_of_class[self._classes] = np.arange(len(self._classes))

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

    def predict(self, rule: str, features_BD: Any) -> Any:
        """Predict the class of the nearest global prototype."""
        if rule != "global_prototype":
            return super().predict(rule, features_BD)
        return nearest_prototype(self._prototypes_CD, self._classes).predict(features_BD)
