"""The client half of FedProx: the loss grows with the distance from the model that came."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from models.methods.batching import batchable
from models.methods.fedavg.client import FedAvgClient

if TYPE_CHECKING:
    from models.training import Batch


class FedProxClient(FedAvgClient):
    """Trains near the model that came; before the first average, near the initial one."""

    def before_training(self, exchange: str, seed: int) -> None:
        """Keep the model that came."""
        is_near = self.config.proximal_weight > 0
        self._global = [tensor.detach().clone() for tensor in self.context.net.parameters() if is_near]

    def after_training(self) -> None:
        """Hold it on the device no longer than that."""
        self._global = []

    @batchable("_global")
    def loss(self, batch: Batch) -> torch.Tensor:
        """Return cross-entropy plus the weighted squared distance to the global model."""
        loss = super().loss(batch)
        if not self.config.proximal_weight:
            return loss
        pairs = zip(self.context.net.parameters(), self._global, strict=True)
        distance = torch.stack([(own - kept).square().sum() for own, kept in pairs]).sum()
        total: torch.Tensor = loss + self.config.proximal_weight / 2 * distance  # Eq. (2)
        return total
