"""The one training loop of all methods; what differs between them is `Client.loss`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from models import seeding
from models.methods.api import Client
from models.spec import TrainingConfig

Progress = Callable[[int, int], None]
"""Called after each step with the steps done and their total; what it raises abandons the training."""


class TrainingDivergedError(Exception):
    """The loss became infinite or NaN; the net is of no use any more."""


class Batch(NamedTuple):
    """Samples `x` [B, ...] and their class ids `y` [B], on the client's device."""

    x: torch.Tensor
    y: torch.Tensor


def train(client: Client, config: TrainingConfig, seed: int, on_progress: Progress | None = None) -> float:
    """Train the client's net on its train part and return the mean loss over all steps (0.0 if there are none).

    Samples are shuffled by `seed` in each epoch and all are used. The optimiser is new. A client with fewer samples
    than a batch trains on what it has; one with none does nothing.

    Raises:
        TrainingDivergedError: the loss is not finite.
    """
    context = client.context
    epochs = [_batches(len(context.train_y), config.batch_size, seed, epoch) for epoch in range(config.local_epochs)]
    steps = [rows for epoch in epochs for rows in epoch]
    optimizer = _optimizer(context.net, config)
    total = torch.zeros((), device=context.device)
    context.net.train()
    for done, rows in enumerate(steps, start=1):
        picked = torch.from_numpy(rows).to(context.device)
        with _norms_can_take(context.net, len(rows)):
            total += _step(client, optimizer, Batch(context.train_x[picked], context.train_y[picked]))
        if on_progress is not None:
            on_progress(done, len(steps))
    return _mean_loss(context.client, float(total), len(steps))


def warm_up(net: nn.Module, config: TrainingConfig) -> None:
    """Make an optimizer and drop it: the first one makes torch load modules for seconds, which no round should pay."""
    _optimizer(net, config).zero_grad()


def _step(client: Client, optimizer: torch.optim.Optimizer, batch: Batch) -> torch.Tensor:
    optimizer.zero_grad()
    loss = client.loss(batch)
    loss.backward()
    optimizer.step()
    return loss.detach()


def _batches(num_samples: int, batch_size: int, seed: int, epoch: int) -> list[np.ndarray]:
    """Return shuffled rows in batches; a last batch of one joins the one before it, for batch norm's sake."""
    rows = seeding.generator(seed, "shuffle", epoch).permutation(num_samples)
    batches = [rows[begin : begin + batch_size] for begin in range(0, num_samples, batch_size)]
    if len(batches) > 1 and batch_size > 1 and len(batches[-1]) == 1:
        batches[-2:] = [np.concatenate(batches[-2:])]
    return batches


@contextmanager
def _norms_can_take(net: nn.Module, size: int) -> Iterator[None]:
    """Let batch norm use its running statistics while a batch of one passes: such a batch has no variance."""
    norms = [module for module in net.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.train(size > 1)
    try:
        yield
    finally:
        for norm in norms:
            norm.train()


def _optimizer(net: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    if config.optimizer == "adam":
        return torch.optim.Adam(net.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    return torch.optim.SGD(net.parameters(), lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay)


def _mean_loss(client: str, total: float, num_steps: int) -> float:
    if not math.isfinite(total):
        raise TrainingDivergedError(f"client {client}: the training loss is {total}; lower [training] lr")
    return total / num_steps if num_steps else 0.0
