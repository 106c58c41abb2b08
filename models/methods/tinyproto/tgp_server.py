"""The server half of TinyProto over FedTGP: trains compressed global prototypes on compressed uploads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from models.methods.api import Update
from models.methods.fedtgp.server import FedTgpServer, Uploads
from models.methods.tinyproto import TgpDownlink, kept_dim
from models.methods.tinyproto.aps import aggregation_factors
from models.methods.tinyproto.cps import compress, reconstruct
from models.methods.tinyproto.server import SparseServer
from wire.payload import Record


class TinyProtoTgpServer(SparseServer, FedTgpServer):
    """Holds the trainable prototypes of all classes, as wide as what travels or as the features."""

    @property
    def prototype_dim(self) -> int:
        """The width of the trainable prototypes."""
        feature_dim = self.spec.model.feature_dim
        return feature_dim if self._is_full else kept_dim(self.config, feature_dim)

    def configure(self, round: int, exchange: str) -> Record:
        """Return the compressed global prototypes of all classes."""
        made = self.global_prototypes()
        return TgpDownlink(compress(made, self.masks) if self._is_full else made, self._classes, self.mu)

    def prepare(self, uploads: Uploads, num_train: int) -> Uploads:
        """Return the uploads, scaled so that a class's mean is its target and, in the full space, in their places."""
        num_uploads_C = np.bincount(uploads.labels, minlength=self.spec.num_classes)
        factors_C = aggregation_factors(self.config, num_uploads_C, self.num_train, num_train)
        scaled = uploads.prototypes * factors_C[uploads.labels, None]
        if self._is_full:
            scaled = reconstruct(scaled, self.masks[uploads.labels], self.spec.model.feature_dim)
        return Uploads(scaled, uploads.labels)

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the trainable prototypes, the uploaded classes and the masks."""
        return {**super().arrays(), "masks": self.constants()["masks"]["positions"]}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up masks and prototypes; before round 1 both are drawn from the run's seed."""
        self.take_masks(arrays)
        super().load(arrays)

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Train the global prototypes on what has come."""
        return self.with_masks(super().aggregate(round, exchange, updates))

    @property
    def _is_full(self) -> bool:
        return bool(self.config.tgp_space == "full")
