"""FedTGP's trainable global prototypes, the margin between them, and how they are trained."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from models.methods.fedtgp import Config


class GlobalPrototypes(nn.Module):
    """A vector for each class, and the layers that make a global prototype of it."""

    def __init__(self, num_classes: int, prototype_dim: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(num_classes, prototype_dim)
        hidden, out = nn.Linear(prototype_dim, prototype_dim), nn.Linear(prototype_dim, prototype_dim)
        self.body = nn.Sequential(hidden, nn.ReLU(), out)

    def forward(self) -> torch.Tensor:
        """Return the global prototypes of all classes [C, D]."""
        made: torch.Tensor = self.body(self.vectors.weight)  # Eq. (1)
        return made


def tgp_margin(means_CD: np.ndarray, threshold: float) -> float:
    """Return the largest distance of a class from the class nearest to it, at most `threshold`, also for a lone class.

    Args:
        means_CD: the mean of what was uploaded for each class that was, float64.
        threshold: tau.
    """
    if len(means_CD) < 2:
        return threshold
    means = torch.from_numpy(means_CD)
    gaps_CC = torch.cdist(means, means).fill_diagonal_(torch.inf)
    return min(gaps_CC.min(dim=1).values.max().item(), threshold)  # Eq. (2)


def tgp_loss(
    uploads_BD: torch.Tensor, labels_B: torch.Tensor, prototypes_CD: torch.Tensor, margin: float
) -> torch.Tensor:
    """Return the mean loss of uploaded prototypes; a distance of 0 has a gradient of 0."""
    distances_BC = torch.cdist(uploads_BD, prototypes_CD)
    farther_BC = distances_BC + margin * one_hot(labels_B, len(prototypes_CD))
    return cross_entropy(-farther_BC, labels_B)  # Eq. (3)


def train_prototypes(
    prototypes: GlobalPrototypes,
    uploads_BD: torch.Tensor,
    labels_B: torch.Tensor,
    margin: float,
    config: Config,
    shuffling: np.random.Generator,
) -> float:
    """Train the global prototypes in place and return the mean loss of the last epoch."""
    optimizer = torch.optim.SGD(prototypes.parameters(), lr=config.server_lr)
    total = 0.0
    for _ in range(config.server_epochs):
        total = 0.0
        order_B = torch.from_numpy(shuffling.permutation(len(labels_B)))
        for rows in order_B.split(config.server_batch_size):
            optimizer.zero_grad()
            loss = tgp_loss(uploads_BD[rows], labels_B[rows], prototypes(), margin)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
    return total / len(labels_B)
