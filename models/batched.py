"""Many clients trained at once, on one net: their parameters are stacked, and each step is one computation for all.

Every client takes the steps of `models.training`, with its own samples in its own order, its own number of steps and
its own optimiser state, so the outcome is the same up to rounding, which is not that of the same client trained alone.
A method's loss stays where it is: it sees one client's net and batch, and `torch.func.vmap` computes it for all.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from torch import nn
from torch.func import functional_call, vmap

from models.device_memory import keep_freed
from models.keyed_dropout import Factors, KeyedDropout, stream_of
from models.methods.api import Client
from models.methods.batching import GROUP_SIZE, varying_of
from models.methods.plain_client import PlainClient
from models.side_by_side import SideBySide
from models.spec import TrainingConfig
from models.steps import Progress, mean_loss, steps
from models.training import Batch, batch_norms, make_optimizer, norms_can_take, train

Tensors = dict[str, torch.Tensor]

GPU_GROUP_SIZE = 128

TRIED_STEPS = 3
"""Steps of each kind after which `pays_off` decides."""


class Trained(NamedTuple):
    """What training has made of one client: its mean loss, and parameters and buffers of its net by name."""

    loss: float
    state: Tensors


class _Member(NamedTuple):
    client: Client
    steps: list[np.ndarray]
    parameters: Tensors
    buffers: Tensors
    varying: dict[str, list[torch.Tensor]]
    dropout: torch.Generator


class Together:
    """Clients whose nets have the same architecture, and who train in the same exchange."""

    def __init__(self, config: TrainingConfig) -> None:
        self._config = config
        self._members: list[_Member] = []

    def add(self, client: Client, seed: int) -> None:
        """Take a client in as it is now: net and torch's own generator may change after this."""
        net, varying = client.context.net, varying_of(client.loss)
        assert varying is not None, "`Client.can_batch` has been asked"
        trained = {name: tensor.detach().clone() for name, tensor in net.named_parameters() if tensor.requires_grad}
        buffers = {name: tensor.clone() for name, tensor in net.named_buffers()}
        rows_of_steps = steps(len(client.context.train_y), self._config, seed)
        held = {name: getattr(client, name) for name in varying}
        dropout = stream_of(client.context.device)
        self._members.append(_Member(client, rows_of_steps, trained, buffers, held, dropout))

    def train(self, on_progress: Progress | None = None) -> list[Trained]:
        """Train all of them and return what became of each, in the order in which they were taken in.

        `on_progress` hears of the steps of the one with most.

        Raises:
            models.steps.TrainingDivergedError: a client's loss is not finite.
            RuntimeError: the loss or the net cannot be computed for many at once.
        """
        keep_freed()
        longest_first = sorted(range(len(self._members)), key=lambda index: -len(self._members[index].steps))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*performance drop")  # `pays_off` is for finding that out
            trained = _Training([self._members[index] for index in longest_first], self._config).run(on_progress)
        return [made for _, made in sorted(zip(longest_first, trained, strict=True), key=lambda item: item[0])]


def group_size(device: torch.device) -> int:
    """Return how many clients should train together on a device."""
    return GROUP_SIZE if device.type == "cpu" else GPU_GROUP_SIZE


def pays_off(clients: Sequence[Client], config: TrainingConfig) -> bool:
    """Say whether these clients, who share one net, train faster together, by a few steps of cross-entropy.

    A GPU is taken to be faster with many. The net's weights are not kept.
    """
    if clients[0].context.device.type != "cpu":
        return True
    few = msgspec.structs.replace(config, local_steps=TRIED_STEPS)
    plain = [_plain(client) for client in clients if len(client.context.train_y)]

    def alone_s() -> float:
        started = time.perf_counter()
        for client in plain:
            train(client, few, seed=0)
        return time.perf_counter() - started

    def together_s() -> float:
        together = Together(few)
        for client in plain:
            together.add(client, seed=0)
        started = time.perf_counter()
        together.train()
        return time.perf_counter() - started

    try:
        together_s(), alone_s()  # the first time is for warming up
        return together_s() < alone_s()
    except (RuntimeError, IndexError):  # a net that cannot be computed for many at once; clients without any sample
        return False


def _plain(client: Client) -> Client:
    """Return another client's net and samples with cross-entropy as their loss."""
    made = PlainClient(client.spec, client.config)
    made.start(client.context)
    return made


class _Training:
    """The steps of all members, those with most steps first, so that whoever still trains is a head of the stack."""

    def __init__(self, members: Sequence[_Member], config: TrainingConfig) -> None:
        self._members = members
        self._config = config
        context = members[0].client.context
        self._parameters = {name: tensor.requires_grad_() for name, tensor in _stacked(members, "parameters").items()}
        self._buffers = _stacked(members, "buffers")
        self._varying = {
            name: [torch.stack(tensors) for tensors in zip(*(member.varying[name] for member in members), strict=True)]
            for name in members[0].varying
        }
        self._x = torch.cat([member.client.context.train_x for member in members])
        self._y = torch.cat([member.client.context.train_y for member in members])
        self._begins = np.cumsum([0, *(len(member.client.context.train_y) for member in members)])
        self._loss = _Loss(members[0].client)
        self._norms = batch_norms(context.net)
        self._optimizer = make_optimizer(self._parameters.values(), config)
        self._totals = torch.zeros(len(members), device=context.device)

    def run(self, on_progress: Progress | None) -> list[Trained]:
        """Take all steps."""
        made = [self._made(index) for index, member in enumerate(self._members) if not member.steps]
        self._loss.net.train()
        num_steps = len(self._members[0].steps)
        for step in range(num_steps):
            self._optimizer.zero_grad()
            for indices, rows, picked in self._batches(step):
                self._backward(indices, rows, picked)
            self._clip()
            self._optimizer.step()
            ended = [index for index, member in enumerate(self._members) if len(member.steps) == step + 1]
            made = [*(self._made(index) for index in ended), *made]
            if on_progress is not None:
                on_progress(step + 1, num_steps)
        return made

    def _batches(self, step: int) -> Iterator[tuple[list[int], slice | torch.Tensor, torch.Tensor]]:
        """Yield whose batches of this step have the same size, as rows too, and which samples [members, size]."""
        by_size: dict[int, list[int]] = defaultdict(list)
        for index, member in enumerate(self._members):
            if step < len(member.steps):
                by_size[len(member.steps[step])].append(index)
        for indices in by_size.values():
            samples = np.stack([self._members[index].steps[step] + self._begins[index] for index in indices])
            picked = torch.from_numpy(samples).to(self._x.device)
            is_head = indices == list(range(len(indices)))
            rows = slice(len(indices)) if is_head else torch.tensor(indices, device=self._x.device)
            yield indices, rows, picked

    def _backward(self, indices: list[int], rows: slice | torch.Tensor, picked_KB: torch.Tensor) -> None:
        """Add the gradients of one batch of each of these members."""
        buffers = {name: tensor[rows] for name, tensor in self._buffers.items()}
        parameters = {name: tensor[rows] for name, tensor in self._parameters.items()}
        varying = {name: [tensor[rows] for tensor in tensors] for name, tensors in self._varying.items()}
        batch = Batch(self._loss.channels.laid_out(self._x[picked_KB]), self._y[picked_KB])
        streams = [self._members[index].dropout for index in indices]
        factors = self._loss.dropout.draw(picked_KB.shape[1], streams, lambda: self._loss.net(batch.x[0]))
        with norms_can_take(self._norms, picked_KB.shape[1]):
            losses_K, changed = vmap(self._loss.of)(parameters, buffers, varying, factors, batch)
        losses_K.sum().backward()
        self._totals[rows] += losses_K.detach()
        for name, tensor in changed.items():
            self._buffers[name][rows] = tensor.detach()

    def _clip(self) -> None:
        """Bring each member's gradient down to the largest norm, as `torch.nn.utils.clip_grad_norm_` does for one."""
        gradients = [tensor.grad for tensor in self._parameters.values() if tensor.grad is not None]
        if not self._config.clip_norm or not gradients:
            return
        norms_K = torch.stack([gradient.flatten(1).norm(dim=1) for gradient in gradients]).norm(dim=0)
        shares_K = (self._config.clip_norm / (norms_K + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(shares_K.reshape(-1, *[1] * (gradient.dim() - 1)))

    def _made(self, index: int) -> Trained:
        """Return what a member has come to; what further steps make of its row is nobody's."""
        member = self._members[index]
        state = {name: tensor[index].detach().clone() for name, tensor in {**self._parameters, **self._buffers}.items()}
        loss = mean_loss(member.client.context.client, float(self._totals[index]), len(member.steps))
        return Trained(loss, state)


class _Loss(nn.Module):
    """A client's loss as a function of all that differs from client to client."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.net: nn.Module = client.context.net
        self.dropout = KeyedDropout(client.context.net)
        self.channels = SideBySide(client.context.net, client.context.device)
        self._client = copy.copy(client)

    def of(
        self,
        parameters: Tensors,
        buffers: Tensors,
        varying: Mapping[str, list[torch.Tensor]],
        factors: Factors,
        batch: Batch,
    ) -> tuple[torch.Tensor, Tensors]:
        """Return the loss of one client's batch, and its buffers after it."""
        state = {f"net.{name}": tensor for name, tensor in {**parameters, **buffers}.items()}
        with self.dropout.by(factors), self.channels.in_use():
            return functional_call(self, state, (varying, batch)), buffers

    def forward(self, varying: Mapping[str, Any], batch: Batch) -> torch.Tensor:
        """Return the loss with the net as it is now."""
        for name, tensors in varying.items():
            setattr(self._client, name, tensors)
        return self._client.loss(batch)


def _stacked(members: Sequence[_Member], part: str) -> Tensors:
    first: Tensors = getattr(members[0], part)
    return {name: torch.stack([getattr(member, part)[name] for member in members]) for name in first}
