"""Torch as a client's backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from models import nets, seeding
from models.backend import Backend
from models.device_memory import take_peak_bytes
from models.methods.api import Method
from models.nets import NetShelf
from models.nets.flops import count_flops
from models.onnx_export import FEATURES, require_onnx
from models.spec import ConfigError, RunSpec
from models.training import warm_up


class TorchBackend(Backend):
    """Nets are torch modules, samples are tensors on the device."""

    def __init__(self, spec: RunSpec, method: Method, config: Any) -> None:
        super().__init__(spec, method, config)
        self.device = pick_device(spec.training.device)
        self.computed_by = f"torch, {self.device}"

    def build_net(self, samples: np.ndarray, client: str, shelf: NetShelf | None) -> nets.Net:
        """Return the run's net with the layers that the method adds, on the device."""
        if shelf is None:
            return self._draw_net(samples, client)
        model = self.spec.model
        architecture = (repr(model), samples.shape[1:])
        return shelf.take(architecture, model.init == "common", lambda: self._draw_net(samples, client))

    def count_flops(self, net: nets.Net, x: torch.Tensor) -> int:
        """Return the operations of matrix products and convolutions on the way of samples through the net."""
        return count_flops(net, x)

    def _draw_net(self, samples: np.ndarray, client: str) -> nets.Net:
        """Draw everyone's weights or the client's own; clients differ in what they train alone.

        Raises:
            ConfigError: the net cannot be had, or its frozen layers would be each client's own.
        """
        model = self.spec.model
        if model.init == "common":
            return self._drawn(samples)
        net = self._drawn(samples, client)
        frozen = nets.frozen_parameters(net)
        if frozen and not all(map(torch.equal, frozen, nets.frozen_parameters(self._drawn(samples)))):
            raise ConfigError(
                f"[model] init = 'per_client': net {model.name!r} draws layers that it freezes, and those are the same "
                "for all clients; expected init = 'common', or frozen layers that follow from no draw, as a file's do"
            )
        return net

    def _drawn(self, samples: np.ndarray, *keys: str) -> nets.Net:
        model, spec = self.spec.model, self.spec
        self.seed("init", model.name, *keys)
        shape, dtype = samples.shape[1:], str(samples.dtype)
        net = nets.build_net(model.name, shape, model.feature_dim, spec.num_classes, dtype=dtype, **model.settings())
        net = self.method.extend_net(net, spec, self.config).to(self.device)
        warm_up(net, spec.training)
        return net

    def feature_graph(self, net: nets.Net, shape: tuple[int, ...], dtype: str) -> Any:
        """Return what torch exports of the net in evaluation mode, for one sample at a time where it must be."""
        was_training, features = net.training, _Features(net).eval()
        two = torch.zeros(2, *shape, dtype=getattr(torch, dtype), device=self.device)
        try:
            graph = _exported(features, two, {0: torch.export.Dim("N")})
            if graph.graph.input[0].type.tensor_type.shape.dim[0].dim_value:  # the net took the number for its own
                graph = _exported(features, two[:1], {})
            return graph
        finally:
            net.train(was_training)

    def sizes(self, net: nets.Net) -> tuple[int, int]:
        """Return the entries of parameters and buffers."""
        return nets.count_parameters(net), nets.count_buffers(net)

    def moved(self, array: np.ndarray) -> torch.Tensor:
        """Return a tensor on the device."""
        return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(self.device)

    def seed(self, *keys: str | int) -> None:
        """Reset torch's generators."""
        seeding.seed_torch(self.spec.seed, *keys)

    def take_gpu_peak_bytes(self) -> int:
        """Return the largest memory that tensors have held on a GPU since the last call."""
        return take_peak_bytes(self.device)


class _Features(nn.Module):
    """A net whose output is its features."""

    def __init__(self, net: nets.Net) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features [B, D]."""
        return self.net.features(x)


def _exported(module: nn.Module, samples: torch.Tensor, free: dict[int, Any]) -> Any:
    """Return an ONNX model; `free` names those dimensions of its input that may be of any size."""
    require_onnx()
    program = torch.onnx.export(
        module,
        (samples,),
        input_names=["x"],
        output_names=[FEATURES],
        dynamic_shapes=(free,),
        dynamo=True,
        verbose=False,
    )
    assert program is not None
    return program.model_proto


def pick_device(device: str) -> torch.device:
    """Return the device that `[training] device` names.

    Raises:
        ConfigError: torch sees no such device here.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("[training] device = 'cuda': torch sees no GPU here; use 'auto' or 'cpu'")
    return torch.device(device)
