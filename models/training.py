"""The one training loop of all methods; what differs between them is `Client.loss`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from models.device_memory import OutOfMemoryError, halved
from models.methods.api import Client
from models.methods.faults import MethodError
from models.spec import TrainingConfig
from models.steps import Progress, mean_loss, steps


class Batch(NamedTuple):
    """Samples `x` [B, ...] and their class ids `y` [B], on the client's device."""

    x: torch.Tensor
    y: torch.Tensor


def train(
    client: Client,
    config: TrainingConfig,
    seed: int,
    on_progress: Progress | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> float:
    """Train the client's net on its train part and return the mean loss over all steps (0.0 if there are none).

    The optimiser is new, unless one that goes on is given. A client with fewer samples than a batch trains on what it
    has; one with none does nothing. A batch that does not fit into the device's memory is halved until it does: the
    step is the same up to rounding, but batch norm normalises each piece by itself.

    Raises:
        TrainingDivergedError: the loss is not finite.
    """
    context = client.context
    rows_of_steps = steps(len(context.train_y), config, seed)
    stepping = _Stepping(
        client,
        optimizer or make_optimizer(context.net.parameters(), config),
        batch_norms(context.net),
        config.batch_size + 1,
        config.clip_norm,
    )
    total = torch.zeros((), device=context.device)
    context.net.train()
    for done, rows in enumerate(rows_of_steps, start=1):
        picked = torch.from_numpy(rows).to(context.device)
        total += stepping.step(Batch(context.train_x[picked], context.train_y[picked]))
        if on_progress is not None:
            on_progress(done, len(rows_of_steps))
    return mean_loss(context.client, float(total), len(rows_of_steps))


def warm_up(net: nn.Module, config: TrainingConfig) -> None:
    """Make an optimizer and drop it: the first one makes torch load modules for seconds, which no round should pay."""
    make_optimizer(net.parameters(), config).zero_grad()


@dataclass
class _Stepping:
    """Steps of one local training; `size` is how many samples go through the net at a time.

    Gradients are clipped to `clip_norm`, unless that is 0.
    """

    client: Client
    optimizer: torch.optim.Optimizer
    norms: list[nn.Module]
    size: int
    clip_norm: float = 0.0

    def step(self, batch: Batch) -> torch.Tensor:
        """Take one step and return the loss; memory that ran out leaves nothing of the failed try but a smaller size.

        Only batch norm's running statistics may keep what the failed try had passed through them.
        """
        while True:
            self.optimizer.zero_grad()
            try:
                loss = self._backward(batch)
            except OutOfMemoryError as error:
                self.size = halved(min(self.size, len(batch.y)), error)
                continue
            if self.clip_norm:
                torch.nn.utils.clip_grad_norm_(self.client.context.net.parameters(), self.clip_norm)
            self.optimizer.step()
            return loss

    def _backward(self, batch: Batch) -> torch.Tensor:
        """Add up the gradient of the batch's mean loss, in pieces unless it fits as it is, and return that loss."""
        if len(batch.y) <= self.size:
            loss = self._loss(batch)
            loss.backward()
            return loss.detach()
        total = torch.zeros((), device=batch.y.device)
        for x, y in zip(batch.x.split(self.size), batch.y.split(self.size), strict=True):
            loss = self._loss(Batch(x, y))
            share = torch.full_like(loss, len(y) / len(batch.y))
            loss.backward(share)
            total += loss.detach() * share
        return total

    def _loss(self, batch: Batch) -> torch.Tensor:
        with norms_can_take(self.norms, len(batch.y)):
            loss = self.client.loss(batch)
        if not (isinstance(loss, torch.Tensor) and loss.dim() == 0 and loss.requires_grad):
            raise MethodError(f"expected a scalar loss that has a gradient, got {_described(loss)}")
        return loss


def _described(loss: object) -> str:
    if not isinstance(loss, torch.Tensor):
        return type(loss).__name__
    return "one without" if loss.dim() == 0 else f"a tensor of shape {tuple(loss.shape)}"


def batch_norms(net: nn.Module) -> list[nn.Module]:
    """Return the layers of a net that normalise a batch by itself."""
    return [module for module in net.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]


@contextmanager
def norms_can_take(norms: list[nn.Module], size: int) -> Iterator[None]:
    """Let batch norm use its running statistics while a single sample passes: it alone has no variance."""
    for norm in norms if size == 1 else ():
        norm.eval()
    try:
        yield
    finally:
        for norm in norms if size == 1 else ():
            norm.train()


def make_optimizer(parameters: Iterable[torch.Tensor], config: TrainingConfig) -> torch.optim.Optimizer:
    """Return the run's optimiser for these parameters, new."""
    if config.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=config.lr, weight_decay=config.weight_decay)
    return torch.optim.SGD(parameters, lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay)
