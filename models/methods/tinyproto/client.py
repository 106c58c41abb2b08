"""The client halves of TinyProto, which are FedProto's with masks between the client and the wire."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from models.checkpoint import state_hash
from models.methods.api import ClientContext
from models.methods.fedproto.client import FedProtoClient
from models.methods.fedtgp import squared_error_weight
from models.methods.tinyproto import Downlink, TgpDownlink, Uplink
from models.methods.tinyproto.aps import scale_local
from models.methods.tinyproto.cps import compress, read_masks, reconstruct
from wire.payload import Record, short_digest

_MIN_SQUARE = 1e-12
"""Keeps the gradient of a distance finite where the distance is 0."""


class TinyProtoClient(FedProtoClient):
    """Holds the last global prototypes, sparse; a class without one has no regulariser and is never predicted."""

    def start(self, context: ClientContext) -> None:
        """Take up net, data and masks; no class has a global prototype yet."""
        super().start(context)
        masks = context.constants["masks"]
        self._masks_digest = short_digest(state_hash(masks))
        self._kept_CS = read_masks(masks, self.spec, self.config)

    def receive(self, exchange: str, downlink: Any) -> None:
        """Install the global prototypes, with their features in their places."""
        kept_CS = self._kept_CS[downlink.classes]
        self.install(reconstruct(downlink.prototypes, kept_CS, self.spec.model.feature_dim), downlink.classes)
        self._mu = downlink.mu

    @property
    def regularizer_weight(self) -> float:
        """Lambda of Eq. (5)."""
        weight, is_squared = self.config.regularizer_weight, self.config.regularizer == "mse"
        if weight != "auto":
            return float(weight)
        return squared_error_weight(self.spec.model.feature_dim) if is_squared else 1.0

    def distances(self, differences_BD: torch.Tensor) -> torch.Tensor:
        """Return the distance of each feature to its global prototype, [B]."""
        if self.config.regularizer == "mse":
            return super().distances(differences_BD)
        return differences_BD.square().sum(dim=1).clamp_min(_MIN_SQUARE).sqrt()  # Eq. (11)

    def uplink(self, exchange: str) -> Record:
        """Return the local prototypes, compressed and scaled."""
        means = self.local_prototypes()
        compressed_CS = compress(means.prototypes_CD, self._kept_CS[means.classes])
        if self.config.aps:
            compressed_CS = scale_local(compressed_CS, means.counts, self._mu)
        return Uplink(compressed_CS, means.classes.astype(np.uint16), self._masks_digest)


class TinyProtoTgpClient(TinyProtoClient):
    """Takes up the global prototypes of those classes that some client has uploaded."""

    def receive(self, exchange: str, downlink: TgpDownlink) -> None:
        """Install the global prototypes of the uploaded classes."""
        uploaded = Downlink(downlink.prototypes[downlink.classes], downlink.classes, downlink.mu)
        super().receive(exchange, uploaded)
