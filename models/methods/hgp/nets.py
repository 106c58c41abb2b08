"""A vision transformer with a learned prefix in its first blocks."""

from __future__ import annotations

import torch
from torch import nn

from models.methods.hgp import Config
from models.nets.net import Net
from models.nets.vit import Vit
from models.spec import ConfigError, RunSpec

_STD = 0.02
"""Of the normal distribution that a prompt's rows begin from; with zeros all rows of a block would stay equal."""


class PromptedVit(Net):
    """A frozen backbone, the prompt P of its first blocks, and a head; the last two are trained."""

    def __init__(self, backbone: Vit, num_blocks: int, num_rows: int) -> None:
        """Take over a net but for its head."""
        super().__init__(backbone.head.in_features, backbone.head.out_features)
        self.backbone = backbone
        del self.backbone.head
        self.backbone.requires_grad_(False)
        self.prompt = nn.Parameter(torch.randn(num_blocks, 2, num_rows, self.head.in_features) * _STD)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D]."""
        return self.backbone.features(x, self.prompt)


class Body(nn.Module):
    """A view of all of a net but its head: the same parameters that are trained, and the same buffers."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        head = set(net.head.parameters())
        self.trained = nn.ParameterList(
            tensor for tensor in net.parameters() if tensor.requires_grad and tensor not in head
        )
        for index, buffer in enumerate(net.buffers()):
            self.register_buffer(f"buffer{index}", buffer)


def with_prompt(net: Net, spec: RunSpec, config: Config) -> Net:
    """Return a client's net with a prompt, or as it is where the whole net is trained.

    Raises:
        ConfigError: a prompt is asked for, and the net takes none or has fewer blocks.
    """
    takes_prompt = isinstance(net, Vit)
    if config.tuning == "full" or (config.tuning == "auto" and not takes_prompt):
        return net
    if not isinstance(net, Vit):
        raise ConfigError(f"[method] tuning = 'prompt' needs [model] name = 'vit', got {spec.model.name!r}")
    num_blocks = config.num_blocks(len(net.blocks))
    if num_blocks > len(net.blocks):
        raise ConfigError(f"[method] prompt_blocks = {num_blocks}: expected at most [model] depth = {len(net.blocks)}")
    return PromptedVit(net, num_blocks, config.prompt_rows)
