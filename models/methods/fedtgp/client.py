"""The client half of FedTGP, which is FedProto's, with global prototypes that are there before their class is."""

from __future__ import annotations

import numpy as np

from models.methods.fedproto.client import FedProtoClient
from models.methods.fedtgp import Downlink, Uplink, squared_error_weight
from wire.payload import Record


class FedTgpClient(FedProtoClient):
    """Takes up the global prototypes of those classes that some client has uploaded; never tells its samples."""

    def receive(self, exchange: str, downlink: Downlink) -> None:
        """Install the global prototypes of the uploaded classes."""
        self.install(downlink.prototypes[downlink.classes], downlink.classes)

    @property
    def regularizer_weight(self) -> float:
        """Lambda of the regulariser."""
        weight = self.config.regularizer_weight
        return squared_error_weight(self.spec.model.feature_dim) if weight == "auto" else float(weight)

    def uplink(self, exchange: str) -> Record:
        """Return the local prototypes."""
        means = self.local_prototypes()
        return Uplink(means.prototypes_CD, means.classes.astype(np.uint16))
