"""A multilayer perceptron for samples of any shape."""

from __future__ import annotations

import math

import torch
from torch import nn

from models.nets.net import Net

_HIDDEN = 128


class Mlp(Net):
    """One hidden layer; the features are taken after ReLU."""

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> None:
        super().__init__(feature_dim, num_classes)
        self.body = nn.Sequential(
            nn.Flatten(),
            nn.Linear(math.prod(input_shape), _HIDDEN),
            nn.ReLU(),
            nn.Linear(_HIDDEN, feature_dim),
            nn.ReLU(),
        )

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D], none negative."""
        made: torch.Tensor = self.body(x)
        return made
