"""What a client computes with: torch, numpy over a frozen backbone's features, or nothing where there is no net."""

from __future__ import annotations

from typing import Any

import numpy as np

from models import nets, seeding
from models.data import ClientData
from models.methods.api import Client, Method
from models.nets import NetShelf
from models.nets.frozen_backbone import Constants
from models.spec import ConfigError, RunSpec


class Backend:
    """That of a method without a net: samples stay numpy arrays as they came, and nothing is loaded."""

    device: Any = None
    notes: tuple[str, ...] = ()
    """What to tell people once the samples are prepared."""
    computed_by: str = ""
    """What computes features, known once the samples are prepared; empty where nothing does."""

    def __init__(self, spec: RunSpec, method: Method, config: Any) -> None:
        seeding.set_threads(spec.training.threads)
        self.spec = spec
        self.method = method
        self.config = config

    def make_client(self) -> Client:
        """Return the method's client half for this backend."""
        return self.method.make_client(self.spec, self.config)

    def prepared(self, client: str, data: ClientData) -> ClientData:
        """Return a client's data as its net takes them."""
        return data

    def build_net(self, samples: np.ndarray, client: str, shelf: NetShelf | None) -> Any:
        """Return the net for such samples, with its initial weights."""

    def sizes(self, net: Any) -> tuple[int, int]:
        """Return the entries of the net's trained parameters, and of its buffers of real numbers."""
        return 0, 0

    def count_flops(self, net: Any, x: Any) -> int:
        """Return the floating-point operations on the way of samples through the net; 0 where none are counted."""
        return 0

    def feature_graph(self, net: Any, shape: tuple[int, ...], dtype: str) -> Any:
        """Return an ONNX model from samples of this shape and type to the net's features.

        Raises:
            ConfigError: there is no net, or a package is missing.
        """
        raise ConfigError(f"{self.method.name} has no net to export")

    def moved(self, array: np.ndarray) -> Any:
        """Return samples or labels as the client half takes them; copied only where they must be."""
        return array

    def seed(self, *keys: str | int) -> None:
        """Make what follows draw by these keys of the run's seed."""

    def take_gpu_peak_bytes(self) -> int:
        """Return the largest memory held on a GPU since the last call, 0 without one."""
        return 0


def backend_of(spec: RunSpec, method: Method, config: Any, constants: Constants) -> Backend:
    """Return what a client with this spec computes with; torch is imported for a net of torch's alone.

    Raises:
        ConfigError: the device or torch is not there, or the method cannot do with such a net.
    """
    if not method.needs_net:
        return Backend(spec, method, config)
    if nets.is_frozen(spec.model.name):
        from models.backend_numpy import NumpyBackend

        return NumpyBackend(spec, method, config, constants)
    try:
        from models.backend_torch import TorchBackend
    except (ImportError, OSError) as error:  # not there, or there without its libraries
        told = f"[model] name = {spec.model.name!r} needs torch, which cannot be loaded: {error}"
        raise ConfigError(f"{told}; pip install 'protoedge[train]'") from None

    return TorchBackend(spec, method, config)
