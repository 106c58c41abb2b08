"""What is trained over a frozen backbone's features: an affine projection to the feature dimension, and a linear head.

Numpy alone; the samples of this net are the backbone's features.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models.cross_entropy import cross_entropy


class AffineNet:
    """Parameters by name, float32: weights `[out, in]` and biases; all are trained until `freeze_projection`."""

    def __init__(self, width: int, feature_dim: int, num_classes: int, random: np.random.Generator) -> None:
        """Draw weights as torch's linear layers do; a projection that keeps the width begins as the identity."""
        projection = _drawn(random, feature_dim, width)
        if feature_dim == width:
            projection = np.eye(width, dtype=np.float32), np.zeros(width, np.float32)
        head = _drawn(random, num_classes, feature_dim)
        self.parameters = dict(zip(("projection.weight", "projection.bias"), projection, strict=True))
        self.parameters |= zip(("head.weight", "head.bias"), head, strict=True)
        self.trained = tuple(self.parameters)

    @property
    def num_parameters(self) -> int:
        """Entries of all that is trained."""
        return sum(self.parameters[name].size for name in self.trained)

    @property
    def trains_projection(self) -> bool:
        """Whether not the head alone is trained."""
        return "projection.weight" in self.trained

    def freeze_projection(self) -> None:
        """Leave nothing but the head to be trained."""
        self.trained = ("head.weight", "head.bias")

    def features(self, x_BW: np.ndarray) -> np.ndarray:
        """Return the features [B, D] of the backbone's features."""
        return _affine(x_BW, self.parameters["projection.weight"], self.parameters["projection.bias"])

    def head(self, features_BD: np.ndarray) -> np.ndarray:
        """Return the logits [B, C]."""
        return _affine(features_BD, self.parameters["head.weight"], self.parameters["head.bias"])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of all that is trained."""
        return {name: self.parameters[name].copy() for name in self.trained}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Put back what `arrays` returned."""
        for name in self.trained:
            self.parameters[name][...] = arrays[name]

    def cross_entropy(
        self, features_BD: np.ndarray, labels_B: np.ndarray
    ) -> tuple[float, np.ndarray, dict[str, np.ndarray]]:
        """Return the loss of a batch, its gradient by the features [B, D], and by the head's parameters."""
        loss, by_logits_BC = cross_entropy(self.head(features_BD), labels_B)
        by_head = {"head.weight": by_logits_BC.T @ features_BD, "head.bias": by_logits_BC.sum(axis=0)}
        return loss, by_logits_BC @ self.parameters["head.weight"], by_head

    def by_projection(self, x_BW: np.ndarray, by_features_BD: np.ndarray) -> dict[str, np.ndarray]:
        """Return the gradient by the projection's parameters that follows from the one by the features."""
        return {"projection.weight": by_features_BD.T @ x_BW, "projection.bias": by_features_BD.sum(axis=0)}


def _affine(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    made: np.ndarray = x @ weight.T + bias
    return made


def _drawn(random: np.random.Generator, num_out: int, num_in: int) -> tuple[np.ndarray, np.ndarray]:
    bound = 1 / np.sqrt(num_in)
    weight = random.uniform(-bound, bound, (num_out, num_in)).astype(np.float32)
    return weight, random.uniform(-bound, bound, num_out).astype(np.float32)
