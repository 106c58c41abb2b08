"""The client half of FedProto: cross-entropy, and features pulled towards the global prototype of their class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from models.linear_rules import LinearRule, nearest_prototype
from models.methods.api import Client, ClientContext
from models.methods.batching import batchable
from models.methods.fedproto import Uplink
from models.prototypes import LocalPrototypes, PrototypeTable, local_prototypes
from wire.payload import Record

if TYPE_CHECKING:
    from models.training import Batch

_OWN_ARRAYS = ("global_prototypes", "global_classes")


class FedProtoClient(Client):
    """Holds the last global prototypes; a class without one has no regulariser and is never predicted by them."""

    def start(self, context: ClientContext) -> None:
        """Take up net and data; no class has a global prototype yet."""
        super().start(context)
        self._install(np.zeros((0, self.spec.model.feature_dim), np.float32), np.zeros(0, np.uint16))

    def receive(self, exchange: str, downlink: Any) -> None:
        """Install the global prototypes."""
        self._install(downlink.prototypes, downlink.classes)

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

    def uplink(self, exchange: str) -> Record:
        """Return the local prototypes."""
        means = self.local_prototypes()
        return Uplink(means.prototypes_CD, means.counts.astype(np.uint32), means.classes.astype(np.uint16))

    def local_prototypes(self) -> LocalPrototypes:
        """Return the mean feature of each class that the client holds, Eq. (3)."""
        context = self.context
        return local_prototypes(context.net, context.train_x, context.train_y, self.spec.num_classes)

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Predict the class of the nearest global prototype."""
        if rule != "global_prototype":
            return super().predict(rule, features_BD)
        return self._global.nearest(features_BD)

    def linear_rules(self) -> dict[str, LinearRule]:
        """Return those of the net, and the nearest global prototype."""
        prototypes_CD = self._global.prototypes_CD.cpu().numpy()
        return {**super().linear_rules(), "global_prototype": nearest_prototype(prototypes_CD, self._global_classes)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the net's state and the last global prototypes."""
        prototypes_CD = self._global.prototypes_CD.cpu().numpy().copy()
        own = {"global_prototypes": prototypes_CD, "global_classes": self._global_classes}
        return {**super().arrays(), **own}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up net and global prototypes."""
        super().load({name: array for name, array in arrays.items() if name not in _OWN_ARRAYS})
        self._install(arrays["global_prototypes"], arrays["global_classes"])

    def _install(self, prototypes_CD: np.ndarray, classes: np.ndarray) -> None:
        self._global_classes = np.array(classes, np.uint16)
        self._global = PrototypeTable(prototypes_CD, classes, self.spec.num_classes, self.context.device)
