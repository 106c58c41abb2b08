"""Dropout of clients that train together: each draws what it would draw alone, from a stream of its own.

Inside `torch.func.vmap` nothing may be drawn. So the shapes of all that a net drops are found once for each batch size,
and the factors for a step are drawn before it, client by client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

Factors = list[torch.Tensor]
"""For each time that something is dropped in a step, by what its input is multiplied."""


def stream_of(device: torch.device) -> torch.Generator:
    """Return a generator that goes on as torch's own would from here."""
    own = torch.default_generator if device.type == "cpu" else torch.cuda.default_generators[device.index or 0]
    stream = torch.Generator(device)
    stream.set_state(own.get_state())
    return stream


class KeyedDropout:
    """The layers of a net that drop something: `nn.Dropout` alone, others cannot be batched."""

    def __init__(self, net: nn.Module) -> None:
        self._layers = [module for module in net.modules() if type(module) is nn.Dropout and module.p > 0]
        self._net = net
        self._shapes: dict[int, list[tuple[float, torch.Size]]] = {}

    def draw(self, size: int, streams: Sequence[torch.Generator], try_out: Callable[[], object]) -> Factors:
        """Return the factors of one step [members, ...] of these streams' clients; `try_out` does a forward pass."""
        if not self._layers:
            return []
        if size not in self._shapes:
            self._shapes[size] = self._seen_in(try_out)
        drawn = [[_factor(*dropped, stream) for dropped in self._shapes[size]] for stream in streams]
        return [torch.stack(factors) for factors in zip(*drawn, strict=True)]

    @contextmanager
    def by(self, factors: Factors) -> Iterator[None]:
        """Drop by these factors of one client."""
        left = iter(factors)
        with ExitStack() as stack:
            for layer in self._layers:
                layer.forward = lambda x: x * next(left)  # type: ignore[assignment,method-assign]
                stack.callback(delattr, layer, "forward")
            yield

    def _seen_in(self, try_out: Callable[[], object]) -> list[tuple[float, torch.Size]]:
        """Return rate and shape of all that is dropped in a pass, which changes nothing."""
        seen: list[tuple[float, torch.Size]] = []
        hooks = [
            layer.register_forward_pre_hook(lambda layer, args: seen.append((layer.p, args[0].shape)))
            for layer in self._layers
        ]
        self._net.eval()
        try:
            with torch.no_grad():
                try_out()
        finally:
            self._net.train()
            for hook in hooks:
                hook.remove()
        return seen


def _factor(rate: float, shape: torch.Size, stream: torch.Generator) -> torch.Tensor:
    """Return what `nn.Dropout` multiplies its input by."""
    kept = torch.empty(shape, device=stream.device).bernoulli_(1 - rate, generator=stream)
    return kept / (1 - rate) if rate < 1 else kept
