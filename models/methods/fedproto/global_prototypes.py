"""What both client halves of FedProto do in the same way, whatever computed the features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.linear_rules import LinearRule, nearest_prototype
from models.methods.api import Client, ClientContext
from models.methods.fedproto import Uplink
from wire.payload import Record

_OWN_ARRAYS = ("global_prototypes", "global_classes")


class GlobalPrototypesClient(Client):
    """Holds the last global prototypes; a class without one has no regulariser and is never predicted by them."""

    def start(self, context: ClientContext) -> None:
        """Take up net and data; no class has a global prototype yet."""
        super().start(context)
        self.install(np.zeros((0, self.spec.model.feature_dim), np.float32), np.zeros(0, np.uint16))

    def receive(self, exchange: str, downlink: Any) -> None:
        """Install the global prototypes."""
        self.install(downlink.prototypes, downlink.classes)

    def install(self, prototypes_CD: np.ndarray, classes: np.ndarray) -> None:
        """Hold these in place of the last ones; a half adds what it finds them by."""
        self._prototypes_CD: np.ndarray = np.array(prototypes_CD, np.float32)
        self._classes: np.ndarray = np.array(classes, np.uint16)

    def uplink(self, exchange: str) -> Record:
        """Return the local prototypes, Eq. (3)."""
        means = self.local_prototypes()
        return Uplink(means.prototypes_CD, means.counts.astype(np.uint32), means.classes.astype(np.uint16))

    def linear_rules(self) -> dict[str, LinearRule]:
        """Return those of the net, and the nearest global prototype."""
        return {**super().linear_rules(), "global_prototype": nearest_prototype(self._prototypes_CD, self._classes)}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what is trained and the last global prototypes."""
        own = {"global_prototypes": self._prototypes_CD.copy(), "global_classes": self._classes.copy()}
        return {**super().arrays(), **own}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up what was trained and global prototypes."""
        super().load({name: array for name, array in arrays.items() if name not in _OWN_ARRAYS})
        self.install(arrays["global_prototypes"], arrays["global_classes"])
