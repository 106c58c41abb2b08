"""What every net is: a feature extractor and a linear head."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import nn

from models.device_memory import OutOfMemoryError, halved
from models.spec import ConfigError

_BATCH_SIZE = 256
"""Samples per evaluation batch: bounds memory, changes no result beyond rounding."""


class Net(nn.Module, ABC):
    """A classifier in two parts: `features` gives [B, D], `head` is linear from D to the classes."""

    head: nn.Linear

    def __init__(self, feature_dim: int, num_classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(feature_dim, num_classes)

    @abstractmethod
    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D] of samples [B, ...]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits [B, C]."""
        logits: torch.Tensor = self.head(self.features(x))
        return logits


def image_shape(input_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return the channels, height and width of the samples that a net is built for.

    Raises:
        ConfigError: they are no images.
    """
    if len(input_shape) != 3 or min(input_shape) < 1:
        raise ConfigError(f"expected images [C, H, W], got samples of shape {list(input_shape)}")
    channels, height, width = input_shape
    return channels, height, width


def feature_batches(net: Net, x: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the features [B, D] of all samples, batch by batch, in evaluation mode; then restore the net's mode.

    A batch that does not fit into the device's memory is halved.
    """
    was_training = net.training
    net.eval()
    size, begin = _BATCH_SIZE, 0
    try:
        while begin < len(x):
            try:
                with torch.no_grad():
                    features_BD = net.features(x[begin : begin + size])
            except OutOfMemoryError as error:
                size = halved(min(size, len(x) - begin), error)
                continue
            begin += len(features_BD)
            yield features_BD
    finally:
        net.train(was_training)
