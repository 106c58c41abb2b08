"""Nets by name, and a net's state as named or flat numpy arrays. Importing this package leaves torch alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from models.registry import installed, resolve
from models.spec import ConfigError

if TYPE_CHECKING:
    import torch

    from models.nets.net import Net as Net

NETS = {"mlp": "models.nets.mlp:Mlp", "cnn": "models.nets.cnn:Cnn"}
"""Where each net is; its class takes `(input_shape, feature_dim, num_classes)`."""


def net_names() -> list[str]:
    """Return the names of all nets, also of installed packages'."""
    return sorted({**installed("net"), **NETS})


def build_net(name: str, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> Net:
    """Build a net for samples of `input_shape`; its weights are drawn from torch's generator as the caller seeded it.

    Raises:
        ConfigError: the net is unknown or does not take such samples.
    """
    from models.nets.net import Net

    made = resolve("net", name, NETS)(tuple(input_shape), feature_dim, num_classes)
    if not isinstance(made, Net):
        raise ConfigError(f"net {name!r} must be a models.nets.net.Net, got {type(made).__name__}")
    return made


def net_arrays(net: Net) -> dict[str, np.ndarray]:
    """Return copies of all parameters and buffers by name."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in net.state_dict().items()}


def load_net_arrays(net: Net, arrays: Mapping[str, np.ndarray]) -> None:
    """Put arrays of `net_arrays` back.

    Raises:
        ValueError: a name is missing or unknown, or a shape differs; names and shapes of both sides are in the text.
    """
    import torch

    expected = {name: tuple(tensor.shape) for name, tensor in net.state_dict().items()}
    came = {name: tuple(array.shape) for name, array in arrays.items()}
    if expected != came:
        differing = sorted(name for name in {*expected, *came} if expected.get(name) != came.get(name))
        wanted, got = ({name: side.get(name, "nothing") for name in differing} for side in (expected, came))
        raise ValueError(f"the net's arrays differ: expected {wanted}, got {got}")
    net.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in arrays.items()})


def count_parameters(net: Net) -> int:
    """Return P, the entries of `flatten_parameters`."""
    return sum(tensor.numel() for tensor in net.parameters())


def count_buffers(net: Net) -> int:
    """Return the entries of `flatten_buffers`."""
    return sum(tensor.numel() for tensor in _float_buffers(net))


def flatten_parameters(net: Net) -> np.ndarray:
    """Return all parameters end to end, float32 [P]."""
    return _flatten(net.parameters())


def flatten_buffers(net: Net) -> np.ndarray:
    """Return all buffers of real numbers end to end, float32; counters (`num_batches_tracked`) are left out."""
    return _flatten(_float_buffers(net))


def load_flat(net: Net, parameters: np.ndarray, buffers: np.ndarray) -> None:
    """Put arrays of `flatten_parameters` and `flatten_buffers` back.

    Raises:
        ValueError: a size differs.
    """
    _load_flat(list(net.parameters()), parameters, "parameters")
    _load_flat(_float_buffers(net), buffers, "buffers")


def _float_buffers(net: Net) -> list[torch.Tensor]:
    return [tensor for tensor in net.buffers() if tensor.is_floating_point()]


def _flatten(tensors: Iterable[torch.Tensor]) -> np.ndarray:
    arrays = [tensor.detach().cpu().numpy().reshape(-1) for tensor in tensors]
    return np.concatenate([np.empty(0), *arrays]).astype(np.float32)


def _load_flat(tensors: list[torch.Tensor], flat: np.ndarray, what: str) -> None:
    import torch

    expected = sum(tensor.numel() for tensor in tensors)
    if flat.shape != (expected,):
        raise ValueError(f"{what}: expected {expected} entries, got shape {flat.shape}")
    begin = 0
    with torch.no_grad():
        for tensor in tensors:
            piece: Any = np.array(flat[begin : begin + tensor.numel()], np.float32).reshape(tensor.shape)
            tensor.copy_(torch.from_numpy(piece))
            begin += tensor.numel()
