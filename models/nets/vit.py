"""A vision transformer (Dosovitskiy et al., ICLR 2021) whose blocks take prefixes, of any size, from standard weights.

Modules are named as timm names them. `[model] weights` is a safetensors file of timm's or torchvision's names; the
head is always the run's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from models.nets.net import Net, image_shape
from models.nets.vit_weights import read_backbone
from models.spec import ConfigError

_NORM_EPS = 1e-6
_MLP_RATIO = 4


class Attention(nn.Module):
    """Multi-head self-attention; a prefix adds keys and values of its own, and neither queries nor tokens."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, prefix: torch.Tensor | None = None) -> torch.Tensor:
        """Return the tokens [B, N, D]; `prefix` [2, L, D] holds L keys, then L values, as they are after `qkv`."""
        query, key, value = (self._by_head(part) for part in self.qkv(x).chunk(3, dim=-1))
        if prefix is not None:
            more_keys, more_values = (self._by_head(part.expand(len(x), -1, -1)) for part in prefix)
            key, value = torch.cat([more_keys, key], dim=2), torch.cat([more_values, value], dim=2)
        attended = scaled_dot_product_attention(query, key, value)
        made: torch.Tensor = self.proj(attended.transpose(1, 2).flatten(2))
        return made

    def _by_head(self, x: torch.Tensor) -> torch.Tensor:
        by_head: torch.Tensor = x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        return by_head


class Block(nn.Module):
    """Attention and a multilayer perceptron, each behind its norm and beside what passes by."""

    def __init__(self, dim: int, num_heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=_NORM_EPS)
        self.attn = Attention(dim, num_heads)
        self.norm2 = nn.LayerNorm(dim, eps=_NORM_EPS)
        self.mlp = nn.Sequential()
        self.mlp.add_module("fc1", nn.Linear(dim, _MLP_RATIO * dim))
        self.mlp.add_module("act", nn.GELU())
        self.mlp.add_module("fc2", nn.Linear(_MLP_RATIO * dim, dim))

    def forward(self, x: torch.Tensor, prefix: torch.Tensor | None = None) -> torch.Tensor:
        """Return the tokens [B, N, D]."""
        x = x + self.attn(self.norm1(x), prefix)
        made: torch.Tensor = x + self.mlp(self.norm2(x))
        return made


class Vit(Net):
    """The feature is the class token behind the last norm; its width is that of the transformer."""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        feature_dim: int,
        num_classes: int,
        patch_size: int = 7,
        depth: int = 4,
        num_heads: int = 4,
        weights: str = "",
    ) -> None:
        """Draw all weights anew, or read those of everything but the head from a file.

        Raises:
            ConfigError: the sizes do not fit each other, or the file does not fit them.
        """
        super().__init__(feature_dim, num_classes)
        channels, height, width = image_shape(input_shape)
        if height % patch_size or width % patch_size or feature_dim % num_heads:
            raise ConfigError(
                f"expected images of whole patches and a width of whole heads, got {height} x {width} pixels with "
                f"patch_size = {patch_size} and feature_dim = {feature_dim} with num_heads = {num_heads}"
            )
        num_patches = (height // patch_size) * (width // patch_size)
        self.patch_embed = nn.Sequential()
        self.patch_embed.add_module("proj", nn.Conv2d(channels, feature_dim, patch_size, patch_size))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, feature_dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 1 + num_patches, feature_dim))
        self.blocks = nn.ModuleList(Block(feature_dim, num_heads) for _ in range(depth))
        self.norm = nn.LayerNorm(feature_dim, eps=_NORM_EPS)
        self._draw_weights()
        if weights:
            self._load(Path(weights).expanduser())

    def features(self, x: torch.Tensor, prefixes: Sequence[torch.Tensor] | torch.Tensor = ()) -> torch.Tensor:
        """Return the features [B, D]; `prefixes` are those of the first so many blocks, each [2, L, D]."""
        patches_BND = self.patch_embed(x).flatten(2).transpose(1, 2)
        tokens_BND = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), patches_BND], dim=1) + self.pos_embed
        for index, block in enumerate(self.blocks):
            tokens_BND = block(tokens_BND, prefixes[index] if index < len(prefixes) else None)
        made: torch.Tensor = self.norm(tokens_BND[:, 0])
        return made

    def _draw_weights(self) -> None:
        """Draw from timm's distributions: normal, of 0.02, but for the patches; zeros for biases."""
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.normal_(self.cls_token, std=1e-6)
        for module in self.blocks.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def _load(self, path: Path) -> None:
        expected = {
            name: list(tensor.shape) for name, tensor in self.state_dict().items() if not name.startswith("head.")
        }
        arrays = read_backbone(path)
        came = {name: list(array.shape) for name, array in arrays.items()}
        differing = sorted(name for name in {*expected, *came} if expected.get(name) != came.get(name))
        if differing:
            first = differing[0]
            raise ConfigError(
                f"{path}: {len(differing)} arrays do not fit [model] feature_dim, depth, patch_size and the images: "
                f"the first, {first!r}, has shape {came.get(first, 'none')}, expected {expected.get(first, 'none')}"
            )
        self.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()}, strict=False)
