"""The client half of head calibration over a torch net."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from models.linear_rules import LinearRule
from models.methods.api import Client, ClientContext
from models.methods.headcal import Downlink
from models.methods.headcal.global_head import GlobalHead, statistics
from models.nets.backbone import check_backbone, weights_digest
from wire.payload import Record


class HeadcalClient(Client):
    """Trains a head of its own, and holds the calibrated one beside it."""

    def start(self, context: ClientContext) -> None:
        """Take up net and data; there is no calibrated head yet.

        Raises:
            ConfigError: this client's extractor has other weights than the run's.
        """
        super().start(context)
        check_backbone(context.client, context.constants, weights_digest(self.spec.model.weights), "[model] weights")
        self._global = GlobalHead(self.spec.model.feature_dim)

    def receive(self, exchange: str, downlink: Downlink) -> None:
        """Install the calibrated head."""
        self._global.install(downlink)

    def uplink(self, exchange: str) -> Record:
        """Return the statistics of this client's features."""
        return statistics(self.train_features(), self.train_labels(), self.context)

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Predict by the calibrated head."""
        if rule != "global_head":
            return super().predict(rule, features_BD)
        predicted_B = self._global.rule(self.context.num_seen).predict(features_BD.cpu().numpy())
        return torch.from_numpy(predicted_B).to(features_BD.device)

    def linear_rules(self) -> dict[str, LinearRule]:
        """Return those of the net, and the calibrated head."""
        return {**super().linear_rules(), "global_head": self._global.rule()}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the net's state and the calibrated head."""
        return {**super().arrays(), **self._global.arrays()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up the net's state and the calibrated head."""
        super().load(self._global.load(arrays))
