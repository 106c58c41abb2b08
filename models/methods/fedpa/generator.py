"""The generator of features, and what it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn.functional import one_hot

if TYPE_CHECKING:
    from models.methods.fedpa import Config
    from models.spec import RunSpec


class Generator(nn.Module):
    """Makes a feature of a class out of noise; in evaluation mode each by itself."""

    def __init__(self, noise_dim: int, hidden_dim: int, num_classes: int, feature_dim: int) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.layers = nn.Sequential(
            nn.Linear(noise_dim + num_classes, hidden_dim),
            nn.BatchNorm1d(hidden_dim),
            nn.ReLU(),
            nn.Linear(hidden_dim, feature_dim),
        )

    @classmethod
    def of(cls, spec: RunSpec, config: Config) -> Generator:
        """Build the generator of a run; its weights are drawn from torch's generator as the caller seeded it."""
        return cls(config.noise_dim, config.hidden_dim, spec.num_classes, spec.model.feature_dim)

    def forward(self, noise_BZ: torch.Tensor, labels_B: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D] of these noises and classes."""
        classes_BC = one_hot(labels_B, self.num_classes).to(noise_BZ.dtype)
        features_BD: torch.Tensor = self.layers(torch.cat([noise_BZ, classes_BC], dim=1))  # Eq. (4)
        return features_BD


class Order(NamedTuple):
    """What to generate: noise float32 [B, Z] and classes int64 [B]."""

    noise_BZ: torch.Tensor
    labels_B: torch.Tensor


def draw(random: np.random.Generator, distribution_C: np.ndarray, count: int, config: Config) -> Order:
    """Draw classes by this distribution, and the noise of each."""
    labels_B = random.choice(len(distribution_C), size=count, p=distribution_C)
    return Order(draw_noise(random, count, config), torch.from_numpy(labels_B))


def draw_noise(random: np.random.Generator, count: int, config: Config) -> torch.Tensor:
    """Draw noise, float32 [B, Z]."""
    shape = (count, config.noise_dim)
    if config.noise == "uniform":
        return torch.from_numpy(random.random(shape, np.float32))
    return torch.from_numpy(random.standard_normal(shape, np.float32))


def label_distribution(counts_C: np.ndarray, labels: Literal["global", "uniform"]) -> np.ndarray:
    """Return the probability of each class, float64 [C]; one without counts has none. There must be some counts."""
    weights_C = np.asarray(counts_C if labels == "global" else counts_C > 0, np.float64)
    distribution_C: np.ndarray = weights_C / weights_C.sum()
    return distribution_C
