"""Layers of images for clients that train together on a CPU: the clients' channels stand side by side in one image.

`torch.func.vmap` computes convolutions like this by itself, in groups of channels. Batch norm and max pooling it would
compute with another layout, which copies every activation between the layers, and with slower kernels: those of torch
are several times as fast where the channels of a pixel are neighbours in memory. Each client's result is that of the
layer alone, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Compute = Callable[..., torch.Tensor]
"""Computes each channel of images [B, C, H, W] by itself, from further tensors [C]."""


class SideBySide:
    """The max pooling and batch norm of a net; on a GPU, and in nets with neither, nothing is done differently."""

    def __init__(self, net: nn.Module, device: torch.device) -> None:
        found = {module: _computed(module) for module in net.modules()} if device.type == "cpu" else {}
        self._layers = {layer: compute for layer, compute in found.items() if compute is not None}

    def laid_out(self, x_KBX: torch.Tensor) -> torch.Tensor:
        """Return the clients' batches with the channels of all clients as neighbours in memory, if they are images."""
        if not self._layers or x_KBX.dim() != 5:
            return x_KBX
        return x_KBX.permute(1, 3, 4, 0, 2).contiguous().permute(3, 0, 4, 1, 2)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Compute the layers side by side, within `torch.func.vmap`."""
        with ExitStack() as stack:
            for layer, compute in self._layers.items():
                layer.forward = compute
                stack.callback(delattr, layer, "forward")
            yield


def _computed(layer: nn.Module) -> Compute | None:
    """Return how a layer is computed side by side, None for one that is left as it is."""
    if type(layer) is nn.MaxPool2d and not layer.return_indices:
        return partial(_Channelwise.apply, partial(nn.MaxPool2d.forward, layer))
    if type(layer) is nn.BatchNorm2d and layer.affine and layer.track_running_stats and layer.momentum is not None:
        return partial(_normalised, layer)
    return None


def _normalised(layer: nn.BatchNorm2d, x: torch.Tensor) -> torch.Tensor:
    """Do as the layer does by itself, its running statistics included."""
    if layer.training:
        assert layer.num_batches_tracked is not None
        layer.num_batches_tracked.add_(1)

    def compute(x: torch.Tensor, *of_channels: torch.Tensor) -> torch.Tensor:
        return functional.batch_norm(x, *of_channels, layer.training, layer.momentum, layer.eps)  # type: ignore[call-arg,arg-type]

    made: torch.Tensor = _Channelwise.apply(compute, x, layer.running_mean, layer.running_var, layer.weight, layer.bias)
    return made


class _Channelwise(torch.autograd.Function):
    """A computation that knows how many clients do it at once; gradients pass through what it computes."""

    @staticmethod
    def forward(compute: Compute, x: torch.Tensor, *of_channels: torch.Tensor) -> torch.Tensor:
        raise AssertionError("clients side by side are computed within torch.func.vmap alone, see `vmap`")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep nothing: `vmap` computes with operations that have gradients of their own."""

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], compute: Compute, x: torch.Tensor, *of_channels: torch.Tensor
    ) -> tuple[torch.Tensor, int]:
        """Return what all clients' images [K, B, C, H, W] come to, and where the clients are."""
        x_BKCHW, *rest = (
            tensor.expand(info.batch_size, *tensor.shape).movedim(0, to) if dim is None else tensor.movedim(dim, to)
            for tensor, dim, to in zip((x, *of_channels), in_dims[1:], (1, *(0 for _ in of_channels)), strict=True)
        )
        made = compute(x_BKCHW.flatten(1, 2), *(tensor.flatten() for tensor in rest))
        return made.unflatten(1, x_BKCHW.shape[1:3]), 1
