"""A small convolutional net for images of any size and any number of channels."""

from __future__ import annotations

import torch
from torch import nn

from models.nets.net import Net, image_shape

_CHANNELS = (16, 32, 64)
_LARGEST_SIDE = 4
"""Blocks halve the image until neither side is longer; further blocks are added where three do not suffice."""


class Cnn(Net):
    """Blocks of convolution, batch norm, ReLU and pooling, then one linear layer; features are taken after ReLU."""

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> None:
        super().__init__(feature_dim, num_classes)
        channels, height, width = image_shape(input_shape)
        layers: list[nn.Module] = []
        while len(layers) < len(_CHANNELS) or max(height, width) > _LARGEST_SIDE:
            wider = _CHANNELS[min(len(layers), len(_CHANNELS) - 1)]
            halve = max(height, width) > _LARGEST_SIDE
            layers.append(_block(channels, wider, halve))
            channels = wider
            height, width = (-(-height // 2), -(-width // 2)) if halve else (height, width)
        flat = channels * height * width
        self.body = nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, feature_dim), nn.ReLU())

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D], none negative."""
        made: torch.Tensor = self.body(x)
        return made


def _block(channels: int, wider: int, halve: bool) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(channels, wider, 3, padding=1, bias=False), nn.BatchNorm2d(wider), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2, ceil_mode=True)) if halve else nn.Sequential(*layers)
