"""Nets by name, and a net's state as named or flat numpy arrays. Importing this package leaves torch alone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from models.registry import installed, resolve
from models.spec import ConfigError

if TYPE_CHECKING:
    import torch
    from torch import nn

    from models.nets.net import Net as Net

NETS = {
    "mlp": "models.nets.mlp:Mlp",
    "cnn": "models.nets.cnn:Cnn",
    "fedpa-cnn": "models.nets.fedpa_cnn:FedPaCnn",
    "resnet8": "models.nets.torchvision_nets:ResNet8",
    "resnet18": "models.nets.torchvision_nets:ResNet18",
    "mobilenet_v2": "models.nets.torchvision_nets:MobileNetV2",
    "shufflenet_v2": "models.nets.torchvision_nets:ShuffleNetV2",
    "efficientnet_b0": "models.nets.torchvision_nets:EfficientNetB0",
    "vit": "models.nets.vit:Vit",
    "fasttext": "models.nets.fasttext:FastText",
}
"""Where each net is: a class, or a factory, of `(input_shape, feature_dim, num_classes)` and settings that it has."""

NET_KEYS = {
    **dict.fromkeys(("resnet8", "resnet18"), ("norm",)),
    "vit": ("patch_size", "depth", "num_heads", "weights"),
    "fasttext": ("vocab_size",),
    "onnx": ("path", "provider", "provider_fallback"),
}
"""The keys of `[model]` that not all nets have, by the nets of `NET_NAMES` that have some."""

FROZEN_NETS = ("onnx",)
"""Nets whose backbone is a file that nothing trains, and whose other layers numpy does; see `models.nets.affine`."""

NET_NAMES = (*NETS, *FROZEN_NETS)


def is_frozen(name: str) -> bool:
    """Say whether this net's backbone is a file that nothing trains, so that it needs no torch."""
    return name in FROZEN_NETS


def net_names() -> list[str]:
    """Return the names of all nets, also of installed packages'."""
    return sorted({*installed("net"), *NET_NAMES})


def build_net(
    name: str,
    input_shape: tuple[int, ...],
    feature_dim: int,
    num_classes: int,
    *,
    dtype: str = "float32",
    **settings: Any,
) -> Net:
    """Build and try a net; its weights are drawn from torch's generator as the caller seeded it.

    Args:
        name: one of `net_names`, or `package.module:factory`.
        input_shape: the shape of one sample.
        feature_dim: the width D of the features.
        num_classes: the outputs of the head.
        dtype: of the samples: `float32`, or `int64` for token ids.
        settings: further keys of `[model]`; a factory gets those that it has a parameter for.

    Raises:
        ConfigError: the net is unknown, cannot be built, does not take such samples, or is not a module with `features`
            of D entries and a linear `head`; the text names it, with what was expected and what came.
    """
    factory = resolve("net", name, NETS)
    try:
        made = factory(tuple(input_shape), feature_dim, num_classes, **_accepted(factory, settings))
    except ConfigError as error:
        raise ConfigError(f"net {name!r}: {error}") from None
    except Exception as error:
        sizes = {"feature_dim": feature_dim, **_accepted(factory, settings)}
        told = ", ".join(f"{key} = {value!r}" for key, value in sizes.items())
        cause = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise ConfigError(f"net {name!r} cannot be built: {cause} (with [model] {told})") from error
    _check_parts(name, made, feature_dim, num_classes)
    _check_features(name, made, tuple(input_shape), feature_dim, dtype)
    return cast("Net", made)


def net_arrays(net: nn.Module) -> dict[str, np.ndarray]:
    """Return copies of all trained parameters and all buffers by name; what is frozen is the same in every state."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in _state(net).items()}


def load_net_arrays(net: nn.Module, arrays: Mapping[str, np.ndarray]) -> None:
    """Put arrays of `net_arrays` back.

    Raises:
        ValueError: a name is missing or unknown, or a shape differs; the text names them.
    """
    import torch

    expected = {name: tuple(tensor.shape) for name, tensor in _state(net).items()}
    came = {name: tuple(array.shape) for name, array in arrays.items()}
    if expected != came:
        raise ValueError(_differing(expected, came))
    state = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    net.load_state_dict(state, strict=False)


def _differing(expected: Mapping[str, tuple[int, ...]], came: Mapping[str, tuple[int, ...]]) -> str:
    """Say in words what speaks against arrays of these shapes, by name, as a net's."""
    told = []
    if added := sorted(came.keys() - expected):
        advice = "what arrays() adds to the net's own, load must take off before super().load"
        told.append(f"the net has no {_listed(added)}: {advice}")
    if missing := sorted(expected.keys() - came):
        told.append(f"the net's own {_listed(missing)} are missing")
    for name in sorted(name for name in expected.keys() & came if expected[name] != came[name]):
        told.append(f"{name!r}: expected shape {expected[name]}, got {came[name]}")
    return "; ".join(told)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def trained_parameters(net: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that are not frozen, in the order in which they travel."""
    return [tensor for tensor in net.parameters() if tensor.requires_grad]


def frozen_parameters(net: nn.Module) -> list[nn.Parameter]:
    """Return the others, which are the same in every state and for every client."""
    return [tensor for tensor in net.parameters() if not tensor.requires_grad]


def count_parameters(net: nn.Module) -> int:
    """Return P, the entries of `flatten_parameters`."""
    return sum(tensor.numel() for tensor in trained_parameters(net))


def count_buffers(net: Net) -> int:
    """Return the entries of `flatten_buffers`."""
    return sum(tensor.numel() for tensor in _float_buffers(net))


def flatten_parameters(net: nn.Module) -> np.ndarray:
    """Return all parameters that are trained end to end, float32 [P]."""
    return _flatten(trained_parameters(net))


def flatten_buffers(net: nn.Module) -> np.ndarray:
    """Return all buffers of real numbers end to end, float32; counters (`num_batches_tracked`) are left out."""
    return _flatten(_float_buffers(net))


def load_flat(net: nn.Module, parameters: np.ndarray, buffers: np.ndarray) -> None:
    """Put arrays of `flatten_parameters` and `flatten_buffers` back, see also `floor_variances`.

    Raises:
        ValueError: a size differs.
    """
    _load_flat(trained_parameters(net), parameters, "parameters")
    _load_flat(_float_buffers(net), buffers, "buffers")
    floor_variances(net)


def floor_variances(net: nn.Module) -> None:
    """Make running variances below 0, whose features would be NaN, 0: a single client may have sent some."""
    from torch.nn.modules.batchnorm import _NormBase

    for module in net.modules():
        if isinstance(module, _NormBase) and module.running_var is not None:
            module.running_var.clamp_(min=0)


class NetShelf:
    """Nets that many participants of one process use in turn: one of each architecture, with its initial arrays."""

    def __init__(self) -> None:
        self._nets: dict[tuple[Any, ...], Net] = {}
        self._common: dict[tuple[Any, ...], dict[str, np.ndarray]] = {}

    def take(self, architecture: tuple[Any, ...], is_common: bool, build: Callable[[], Net]) -> Net:
        """Return the net of this architecture with initial weights; those that are common are drawn only once."""
        held = self._nets.get(architecture)
        if held is None:
            held = self._nets[architecture] = build()
            if is_common:
                self._common[architecture] = net_arrays(held)
        else:
            load_net_arrays(held, self._common[architecture] if is_common else net_arrays(build()))
        return held


def _accepted(factory: Callable[..., Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(factory).parameters
    return {key: value for key, value in settings.items() if key in parameters}


def _check_parts(name: str, made: Any, feature_dim: int, num_classes: int) -> None:
    """Refuse what is not a module with `features` and a linear `head` of the run's sizes."""
    from torch import nn

    if not isinstance(made, nn.Module):
        raise ConfigError(f"net {name!r}: expected a torch.nn.Module, got {type(made).__name__}")
    if not callable(getattr(made, "features", None)):
        raise ConfigError(f"net {name!r}: expected a method `features`, got none")
    head = getattr(made, "head", None)
    if not isinstance(head, nn.Linear):
        raise ConfigError(f"net {name!r}: expected a torch.nn.Linear as `head`, got {type(head).__name__}")
    came, expected = (head.in_features, head.out_features), (feature_dim, num_classes)
    if came != expected:
        raise ConfigError(
            f"net {name!r}: expected a head from {expected[0]} to {expected[1]}, got {came[0]} to {came[1]}"
        )


def _check_features(name: str, net: Net, input_shape: tuple[int, ...], feature_dim: int, dtype: str) -> None:
    """Try the net on two samples of zeros, in evaluation mode, which draws nothing and changes nothing in it."""
    import torch

    samples = f"samples of shape {list(input_shape)} and type {dtype}"
    net.eval()
    try:
        with torch.no_grad():
            made = net.features(torch.zeros(2, *input_shape, dtype=getattr(torch, dtype)))
    except Exception as error:
        raise ConfigError(f"net {name!r} cannot take {samples}: {type(error).__name__}: {error}") from error
    net.train()
    came = list(made.shape) if isinstance(made, torch.Tensor) else type(made).__name__
    if came != [2, feature_dim]:
        raise ConfigError(f"net {name!r}: expected features {[2, feature_dim]} of two {samples}, got {came}")


def _state(net: nn.Module) -> dict[str, torch.Tensor]:
    frozen = {name for name, tensor in net.named_parameters() if not tensor.requires_grad}
    return {name: tensor for name, tensor in net.state_dict().items() if name not in frozen}


def _float_buffers(net: nn.Module) -> list[torch.Tensor]:
    return [tensor for tensor in net.buffers() if tensor.is_floating_point()]


def _flatten(tensors: Iterable[torch.Tensor]) -> np.ndarray:
    arrays = [tensor.detach().cpu().numpy().reshape(-1) for tensor in tensors]
    return np.concatenate([np.empty(0), *arrays]).astype(np.float32)


def _load_flat(tensors: Sequence[torch.Tensor], flat: np.ndarray, what: str) -> None:
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
