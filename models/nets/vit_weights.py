"""Weights of vision transformers on disk: safetensors files of timm's or torchvision's names. Numpy alone."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from models import checkpoint
from models.spec import ConfigError

_OF_TORCHVISION = (
    (r"^class_token$", "cls_token"),
    (r"^conv_proj\.", "patch_embed.proj."),
    (r"^encoder\.pos_embedding$", "pos_embed"),
    (r"^encoder\.ln\.", "norm."),
    (r"^encoder\.layers\.encoder_layer_(\d+)\.", r"blocks.\1."),
    (r"\.ln_([12])\.", r".norm\1."),
    (r"\.self_attention\.in_proj_", ".attn.qkv."),
    (r"\.self_attention\.out_proj\.", ".attn.proj."),
    (r"\.mlp\.(0|linear_1)\.", ".mlp.fc1."),
    (r"\.mlp\.(3|linear_2)\.", ".mlp.fc2."),
)
"""Torchvision's names for the same arrays, and timm's."""

_HEADS = ("head.", "heads.", "fc_norm.", "pre_logits.")


def read_backbone(path: Path) -> dict[str, np.ndarray]:
    """Return all arrays but those of a head, float32 and under timm's names.

    Raises:
        ConfigError: there is no such file, or it is no safetensors file of arrays that numpy knows.
    """
    try:
        arrays, _ = checkpoint.read(path)
    except checkpoint.CheckpointError as error:
        raise ConfigError(f"[model] weights: {error}") from None
    kept = {_timm_name(name): array for name, array in arrays.items() if not name.startswith(_HEADS)}
    return {name: np.array(array, np.float32) for name, array in kept.items()}


def write_backbone(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays of `read_backbone`, whole or not at all."""
    checkpoint.write(path, {name: array for name, array in arrays.items() if not name.startswith(_HEADS)})


def _timm_name(name: str) -> str:
    for pattern, replacement in _OF_TORCHVISION:
        name = re.sub(pattern, replacement, name)
    return name
