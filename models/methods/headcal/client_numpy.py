"""The client half of head calibration over a frozen backbone, without torch."""

from __future__ import annotations

from typing import Any

from models.methods.api import ClientContext
from models.methods.headcal.global_head import GlobalHeadClient
from models.methods.numpy_client import NumpyClient


class HeadcalNumpyClient(GlobalHeadClient, NumpyClient):
    """Trains a head of its own, and holds the calibrated one beside it."""

    def start(self, context: ClientContext) -> None:
        """Take up net and data; there is no calibrated head yet."""
        super().start(context)
        self.net.freeze_projection()

    def predict(self, rule: str, features_BD: Any) -> Any:
        """Predict by the calibrated head."""
        if rule != "global_head":
            return super().predict(rule, features_BD)
        return self.by_global_head(features_BD)
