"""The small convolutional net that FedPA's clients train."""

from __future__ import annotations

import torch
from torch import nn

from models.nets.net import Net, image_shape

_CHANNELS = (6, 16)


class FedPaCnn(Net):
    """Two strided convolutions with batch norm, then one linear layer without ReLU: features have both signs."""

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> None:
        super().__init__(feature_dim, num_classes)
        channels, height, width = image_shape(input_shape)
        layers: list[nn.Module] = []
        for wider in _CHANNELS:
            layers += [nn.Conv2d(channels, wider, 3, stride=2, padding=1), nn.BatchNorm2d(wider), nn.ReLU()]
            channels, height, width = wider, -(-height // 2), -(-width // 2)
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * width, feature_dim))

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D]."""
        made: torch.Tensor = self.body(x)
        return made
