"""The two classifiers of a GFPL client: its head, and a projection beside it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from models.nets.net import Net
from models.spec import RunSpec


def with_projection(net: Net, spec: RunSpec, config: Any) -> Net:
    """Return the net with a linear `projection` of its features, unless the method is to do without."""
    if config.dual_classifier:
        net.projection = nn.Linear(net.head.in_features, config.projection_dim)
    return net


class Classifiers(Net):
    """The classifiers of a net alone, shared with it: their samples are features."""

    def __init__(self, net: Net) -> None:
        nn.Module.__init__(self)
        self.head = net.head
        if hasattr(net, "projection"):
            self.projection = net.projection

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D] as they came."""
        return x
