"""A net of which nothing but the head is trained."""

from __future__ import annotations

import torch

from models.methods.headcal import Config
from models.nets.net import Net
from models.spec import RunSpec


class Frozen(Net):
    """The features of another net, always in evaluation mode, and a head of its own."""

    def __init__(self, extractor: Net) -> None:
        """Take over a net, its head too."""
        super().__init__(extractor.head.in_features, extractor.head.out_features)
        self.head = extractor.head
        self.extractor = extractor
        del self.extractor.head
        self.extractor.requires_grad_(False)

    def train(self, mode: bool = True) -> Frozen:
        """Set the mode of the head alone."""
        super().train(mode)
        self.extractor.eval()
        return self

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D], without a gradient."""
        with torch.no_grad():
            return self.extractor.features(x)


def frozen(net: Net, spec: RunSpec, config: Config) -> Net:
    """Return a client's net with its extractor frozen."""
    return Frozen(net)
