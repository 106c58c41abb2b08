"""Which samples each step of a local training takes, whatever computes it. Numpy alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from models import seeding
from models.spec import TrainingConfig

Progress = Callable[[int, int], None]
"""Called after each step with the steps done and their total; may raise an `AbandonedError`."""


class AbandonedError(Exception):
    """The training, and what it is for, is wanted no more; a `Progress` raises this."""


class TrainingDivergedError(Exception):
    """The loss became infinite or NaN; the net is of no use any more."""


def steps(num_samples: int, config: TrainingConfig, seed: int) -> list[np.ndarray]:
    """Return the rows of each step.

    Samples are shuffled by `seed` in each epoch and all are used, but for those of the last one that `local_steps` cuts
    off. A last batch of one sample joins the one before it, for batch norm's sake.
    """
    num_steps, epoch = count_steps(num_samples, config), 0
    made: list[np.ndarray] = []
    while len(made) < num_steps:
        made += _batches(num_samples, config.batch_size, seed, epoch)
        epoch += 1
    return made[:num_steps]


def count_steps(num_samples: int, config: TrainingConfig) -> int:
    """Return how many steps a local training takes with so many samples."""
    per_epoch = math.ceil(num_samples / config.batch_size) - _joins_last(num_samples, config.batch_size)
    return config.local_steps if per_epoch and config.local_steps else config.local_epochs * per_epoch


def mean_loss(client: str, total: float, num_steps: int) -> float:
    """Return the mean loss over all steps, 0.0 if there are none.

    Raises:
        TrainingDivergedError: the loss is not finite.
    """
    if not math.isfinite(total):
        raise TrainingDivergedError(f"client {client}: the training loss is {total}; lower [training] lr")
    return total / num_steps if num_steps else 0.0


def _batch_sizes(num_samples: int, batch_size: int) -> list[int]:
    whole, rest = divmod(num_samples, batch_size)
    sizes = [batch_size] * whole + [rest] * (rest > 0)
    if _joins_last(num_samples, batch_size):
        sizes[-2:] = [batch_size + 1]
    return sizes


def _joins_last(num_samples: int, batch_size: int) -> bool:
    """Say whether the last batch is one sample that joins the batch before it."""
    return num_samples > batch_size > 1 and num_samples % batch_size == 1


def _batches(num_samples: int, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Return all rows, shuffled, in batches."""
    rows = seeding.generator(seed, "shuffle", epoch).permutation(num_samples)
    ends = np.cumsum(_batch_sizes(num_samples, batch_size))
    return [rows[end - size : end] for end, size in zip(ends, np.diff(ends, prepend=0), strict=True)]
