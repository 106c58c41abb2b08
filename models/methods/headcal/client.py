"""The client half of head calibration over a torch net."""

from __future__ import annotations

import torch

from models.methods.api import ClientContext
from models.methods.headcal.global_head import GlobalHeadClient
from models.nets.frozen_backbone import check_backbone, weights_digest


class HeadcalClient(GlobalHeadClient):
    """Trains a head of its own, and holds the calibrated one beside it."""

    def start(self, context: ClientContext) -> None:
        """Take up net and data; there is no calibrated head yet.

        Raises:
            ConfigError: this client's extractor has other weights than the run's.
        """
        super().start(context)
        check_backbone(context.client, context.constants, weights_digest(self.spec.model.weights), "[model] weights")

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Predict by the calibrated head."""
        if rule != "global_head":
            return super().predict(rule, features_BD)
        return torch.from_numpy(self.by_global_head(features_BD.cpu().numpy())).to(features_BD.device)
