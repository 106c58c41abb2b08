"""Numpy as a client's backend: a frozen backbone gives each sample's features once, and all else works on those."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from models import seeding
from models.backend import Backend
from models.data import ClientData
from models.methods.api import Method
from models.methods.numpy_client import NumpyClient
from models.nets import NetShelf
from models.nets.affine import AffineNet
from models.nets.frozen_backbone import Constants, check_backbone, file_digest
from models.nets.onnx_session import OnnxSession
from models.spec import ConfigError, RunSpec

_MAX_CACHED_BYTES = 64 << 20
"""Features of more than this are kept in an unnamed file, from which the system takes up what is at work."""

_ROWS_AT_A_TIME = 256


class NumpyBackend(Backend):
    """Samples are the features of the file `[model] path`; torch is never imported."""

    def __init__(self, spec: RunSpec, method: Method, config: Any, constants: Constants) -> None:
        super().__init__(spec, method, config)
        self._constants = constants
        self._width = 0
        self._opened_by = ""
        self._held: dict[bytes, np.ndarray] = {}
        """The features of the samples that were prepared last, by the samples' digests."""

    def make_client(self) -> NumpyClient:
        """Return the method's half that numpy computes."""
        return self.method.make_numpy_client(self.spec, self.config)

    def prepared(self, client: str, data: ClientData) -> ClientData:
        """Return the data with features in place of samples, new ones computed, and say what computed them.

        Raises:
            ConfigError: the file is not the run's, or does not take these samples.
        """
        check_backbone(client, self._constants, file_digest(self.spec.model.path), "[model] path")
        opened = cache(self._open)  # for new samples alone, and not kept: it has the backbone's weights in memory
        if not self._width:
            self._width = _width(opened(), data.train_x)
        train_x, of_train = self._features(opened, data.train_x)
        test_x, of_test = self._features(opened, data.test_x)
        held = {**of_train, **of_test}
        num_new = len(held.keys() - self._held.keys())
        self.notes = (f"features of {num_new} new samples by {self._opened_by}",)
        self._held = held
        return dataclasses.replace(data, train_x=train_x, test_x=test_x)

    def build_net(self, samples: np.ndarray, client: str, shelf: NetShelf | None) -> AffineNet:
        """Return what is trained over the backbone."""
        model, spec = self.spec.model, self.spec
        keys = (model.name,) if model.init == "common" else (model.name, client)
        random = seeding.generator(spec.seed, "init", *keys)
        return AffineNet(samples.shape[1], model.feature_dim, spec.num_classes, random)

    def feature_graph(self, net: AffineNet, shape: tuple[int, ...], dtype: str) -> Any:
        """Return the backbone with the projection behind it."""
        from models.onnx_export import load_features, project

        graph = load_features(Path(self.spec.model.path).expanduser())
        project(graph, net.parameters["projection.weight"], net.parameters["projection.bias"])
        return graph

    def sizes(self, net: AffineNet) -> tuple[int, int]:
        """Return the entries of what is trained; there are no buffers."""
        return net.num_parameters, 0

    def _open(self) -> OnnxSession:
        """Return the backbone at work, and take note of what computes it."""
        model = self.spec.model
        training = self.spec.training
        provider = training.device if model.provider == "auto" else model.provider
        session = OnnxSession(Path(model.path).expanduser(), provider, training.threads, model.provider_fallback)
        self.computed_by = f"onnxruntime, {session.provider}"
        self._opened_by = f"{session.provider}, {session.versions}"
        return session

    def _features(
        self, opened: Callable[[], OnnxSession], samples: np.ndarray
    ) -> tuple[np.ndarray, dict[bytes, np.ndarray]]:
        """Return the features of all samples, float32 [N, W], and each one's by its digest."""
        made, digests = _room(len(samples), self._width), list(map(_digest, samples))
        new = [row for row, digest in enumerate(digests) if digest not in self._held]
        for begin in range(0, len(new), _ROWS_AT_A_TIME):
            rows = new[begin : begin + _ROWS_AT_A_TIME]
            made[rows] = opened().run(samples[rows])[0].reshape(-1, self._width)
        for row, digest in enumerate(digests):
            if digest in self._held:
                made[row] = self._held[digest]
        return made, dict(zip(digests, made, strict=True))


def _digest(sample: np.ndarray) -> bytes:
    return hashlib.blake2b(sample.tobytes(), digest_size=16).digest()


def _width(session: OnnxSession, samples: np.ndarray) -> int:
    """Try the backbone on a sample of zeros."""
    made = session.run(np.zeros((1, *samples.shape[1:]), samples.dtype))[0]
    if made.dtype != np.float32 or made.size != max(made.shape):
        raise ConfigError(f"[model] path: expected features [1, W] of one sample, got {made.dtype} {list(made.shape)}")
    return made.size


def _room(num: int, width: int) -> np.ndarray:
    if num * width * np.dtype(np.float32).itemsize <= _MAX_CACHED_BYTES:
        return np.empty((num, width), np.float32)
    from tempfile import TemporaryFile  # a megabyte that few clients need

    with TemporaryFile() as file:
        return np.memmap(file, np.float32, "w+", shape=(num, width))
