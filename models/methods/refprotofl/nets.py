"""A backbone with the adapter behind it."""

from __future__ import annotations

import torch
from torch import nn

from models.methods.refprotofl import Config
from models.nets.net import Net
from models.spec import RunSpec


class AdaptedNet(Net):
    """A private backbone theta^b, then theta^f (`transform`, with ReLU) and theta^c (`head`)."""

    def __init__(self, backbone: Net, adapter_dim: int) -> None:
        """Take over a net but for its head."""
        super().__init__(adapter_dim, backbone.head.out_features)
        self.transform = nn.Linear(backbone.head.in_features, adapter_dim)
        self.backbone = backbone
        del self.backbone.head

    @property
    def adapter(self) -> nn.Module:
        """The part that is shared, theta^a of Eq. (8); its parameters are in the order in which it travels."""
        return nn.ModuleList([self.transform, self.head])

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the embeddings [B, M], none negative."""
        return torch.relu(self.transform(self.backbone.features(x)))  # Eq. (9)


def with_adapter(net: Net, spec: RunSpec, config: Config) -> Net:
    """Return a client's net with the adapter in place of its head."""
    return AdaptedNet(net, config.adapter_dim)
