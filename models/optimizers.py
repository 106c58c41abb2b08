"""The two optimizers of `[training]` by numpy alone: each step does what torch's does, up to rounding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from models.spec import TrainingConfig

Arrays = Mapping[str, np.ndarray]

_DECAYS = (0.9, 0.999)
_EPSILON = 1e-8


class Optimizer(Protocol):
    """Changes arrays in place."""

    def step(self, parameters: Arrays, gradients: Arrays) -> None:
        """Take one step down these gradients; a parameter without one stays as it is."""
        ...


class Sgd:
    """Stochastic gradient descent with momentum; `lr` may be set between steps."""

    def __init__(self, lr: float, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
        self.lr = lr
        self._momentum = momentum
        self._weight_decay = weight_decay
        self._velocities: dict[str, np.ndarray] = {}

    def step(self, parameters: Arrays, gradients: Arrays) -> None:
        """Take one step."""
        for name, gradient in gradients.items():
            change = gradient + self._weight_decay * parameters[name]
            if self._momentum:
                change += self._momentum * self._velocities.get(name, 0.0)
                self._velocities[name] = change
            parameters[name][...] -= self.lr * change


class Adam:
    """Kingma and Ba, ICLR 2015, with torch's settings."""

    def __init__(self, lr: float, weight_decay: float = 0.0) -> None:
        self._lr = lr
        self._weight_decay = weight_decay
        self._num_steps = 0
        self._means: dict[str, np.ndarray] = {}
        self._squares: dict[str, np.ndarray] = {}

    def step(self, parameters: Arrays, gradients: Arrays) -> None:
        """Take one step."""
        self._num_steps += 1
        of_mean, of_square = _DECAYS
        mean_share, square_share = (1 - decay**self._num_steps for decay in _DECAYS)
        for name, gradient in gradients.items():
            change = gradient + self._weight_decay * parameters[name]
            self._means[name] = of_mean * self._means.get(name, 0.0) + (1 - of_mean) * change
            self._squares[name] = of_square * self._squares.get(name, 0.0) + (1 - of_square) * change**2
            scale = np.sqrt(self._squares[name] / square_share) + _EPSILON
            parameters[name][...] -= self._lr * self._means[name] / mean_share / scale


def optimizer_of(config: TrainingConfig) -> Optimizer:
    """Return a new optimizer as `[training]` says."""
    if config.optimizer == "adam":
        return Adam(config.lr, config.weight_decay)
    return Sgd(config.lr, config.momentum, config.weight_decay)
