"""The client half of head calibration over a frozen backbone, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.linear_rules import LinearRule
from models.methods.api import ClientContext
from models.methods.headcal import Downlink
from models.methods.headcal.global_head import GlobalHead, statistics
from models.methods.numpy_client import NumpyClient
from wire.payload import Record


class HeadcalNumpyClient(NumpyClient):
    """Trains a head of its own, and holds the calibrated one beside it."""

    def start(self, context: ClientContext) -> None:
        """Take up net and data; there is no calibrated head yet."""
        super().start(context)
        self.net.freeze_projection()
        self._global = GlobalHead(self.spec.model.feature_dim)

    def receive(self, exchange: str, downlink: Downlink) -> None:
        """Install the calibrated head."""
        self._global.install(downlink)

    def uplink(self, exchange: str) -> Record:
        """Return the statistics of this client's features."""
        return statistics(self.train_features(), self.train_labels(), self.context)

    def predict(self, rule: str, features_BD: Any) -> Any:
        """Predict by the calibrated head."""
        if rule != "global_head":
            return super().predict(rule, features_BD)
        return self._global.rule(self.context.num_seen).predict(features_BD)

    def linear_rules(self) -> dict[str, LinearRule]:
        """Return those of the net, and the calibrated head."""
        return {**super().linear_rules(), "global_head": self._global.rule()}

    def arrays(self) -> dict[str, np.ndarray]:
        """Return its own head and the calibrated one."""
        return {**super().arrays(), **self._global.arrays()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up both heads."""
        super().load(self._global.load(arrays))
