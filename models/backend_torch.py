"""Torch as a client's backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from models import nets, seeding
from models.backend import Backend
from models.methods.api import Method
from models.nets import NetShelf
from models.spec import ConfigError, RunSpec
from models.training import warm_up


class TorchBackend(Backend):
    """Nets are torch modules, samples are tensors on the device."""

    def __init__(self, spec: RunSpec, method: Method, config: Any, device: str, threads: int) -> None:
        super().__init__(spec, method, config)
        seeding.set_threads(threads)
        self.device = _pick_device(device)

    def build_net(self, samples: np.ndarray, client: str, shelf: NetShelf | None) -> nets.Net:
        """Return the run's net with the layers that the method adds, on the device."""
        model, spec = self.spec.model, self.spec
        self.seed("init", *((model.name,) if model.init == "common" else (model.name, client)))
        shape, dtype = samples.shape[1:], str(samples.dtype)
        net = nets.build_net(model.name, shape, model.feature_dim, spec.num_classes, dtype=dtype, **model.settings())
        net = self.method.extend_net(net, spec, self.config).to(self.device)
        warm_up(net, spec.training)
        return shelf.take((repr(model), shape), net) if shelf is not None else net

    def sizes(self, net: nets.Net) -> tuple[int, int]:
        """Return the entries of parameters and buffers."""
        return nets.count_parameters(net), nets.count_buffers(net)

    def moved(self, array: np.ndarray) -> torch.Tensor:
        """Return a tensor on the device."""
        return torch.from_numpy(np.require(array, requirements=["C", "W"])).to(self.device)

    def seed(self, *keys: str | int) -> None:
        """Reset torch's generators."""
        seeding.seed_torch(self.spec.seed, *keys)


def _pick_device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("[training] device = 'cuda': torch sees no GPU here; use 'auto' or 'cpu'")
    return torch.device(device)
