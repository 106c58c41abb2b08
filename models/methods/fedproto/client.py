"""The client half of FedProto: cross-entropy, and features pulled towards the global prototype of their class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from models.methods.batching import batchable
from models.methods.fedproto.global_prototypes import GlobalPrototypesClient
from models.prototypes import PrototypeTable

if TYPE_CHECKING:
    from models.training import Batch


class FedProtoClient(GlobalPrototypesClient):
    """Trains a torch net."""

    def install(self, prototypes_CD: np.ndarray, classes: np.ndarray) -> None:
        """Hold these in place of the last ones, also on the device."""
        super().install(prototypes_CD, classes)
        self._global = PrototypeTable(prototypes_CD, classes, self.spec.num_classes, self.context.device)

    @batchable()
    def loss(self, batch: Batch) -> torch.Tensor:
        """Return cross-entropy plus the weighted distance to the global prototypes."""
        features_BD = self.context.net.features(batch.x)
        loss: torch.Tensor = cross_entropy(self.context.net.head(features_BD), batch.y)
        if self.regularizer_weight == 0 or not len(self._global.classes):
            return loss
        targets_BD, has_one_B = self._global.targets(batch.y)
        distance = (self.distances(features_BD - targets_BD) * has_one_B).sum() / len(batch.y)
        total: torch.Tensor = loss + self.regularizer_weight * distance  # Eq. (7)
        return total

    @property
    def regularizer_weight(self) -> float:
        """Lambda of Eq. (7)."""
        weight: float = self.config.regularizer_weight
        return weight

    def distances(self, differences_BD: torch.Tensor) -> torch.Tensor:
        """Return the distance of each feature to its global prototype, [B]."""
        return differences_BD.square().mean(dim=1)

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Predict the class of the nearest global prototype."""
        if rule != "global_prototype":
            return super().predict(rule, features_BD)
        return self._global.nearest(features_BD)
