"""What every net is: a feature extractor and a linear head."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

_BATCH_SIZE = 256
"""Samples per evaluation batch: bounds memory, changes no result beyond rounding."""


class Net(nn.Module):
    """A classifier in two parts: `features` gives [B, D], `head` is linear from D to the classes."""

    head: nn.Linear

    def __init__(self, feature_dim: int, num_classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(feature_dim, num_classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D] of samples [B, ...]."""
        raise NotImplementedError

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits [B, C]."""
        logits: torch.Tensor = self.head(self.features(x))
        return logits


def feature_batches(net: Net, x: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the features [B, D] of all samples, batch by batch, in evaluation mode; then restore the net's mode."""
    was_training = net.training
    net.eval()
    try:
        for batch in x.split(_BATCH_SIZE) if len(x) else ():
            with torch.no_grad():
                features_BD = net.features(batch)
            yield features_BD
    finally:
        net.train(was_training)
