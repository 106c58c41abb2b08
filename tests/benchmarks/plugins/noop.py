"""A method that computes nothing, to measure everything else: values, counts and ids travel each way.

The values are as many as the run has classes, each as wide as its features: 10 x 50 where it says nothing else.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from models.methods.api import Client, Exchange, Facts, Method, Server, Update
from models.spec import Positive, RunSpec, Section
from wire.payload import Record, class_ids, counts, values


class Config(Section, frozen=True):
    """Nothing to set."""


@dataclass(frozen=True)
class Prototypes(Record):
    """What travels, both ways."""

    prototypes: np.ndarray = values("C", "D")
    counts: np.ndarray = counts("C")
    classes: np.ndarray = class_ids("C")


@functools.cache
def some_prototypes(num_classes: int = 10, feature_dim: int = 50) -> Prototypes:
    """Return a record of this size, always the same; it counts no samples, which is no more than any client has."""
    prototypes_CD = np.linspace(-1.0, 1.0, num_classes * feature_dim, dtype=np.float32).reshape(num_classes, -1)
    return Prototypes(prototypes_CD, np.zeros(num_classes, np.uint32), np.arange(num_classes, dtype=np.uint16))


def _prototypes_of(spec: RunSpec) -> Prototypes:
    return some_prototypes(spec.num_classes, spec.model.feature_dim)


class NoopServer(Server):
    """Sums what comes, so that every update is decoded, and sends the same in every round."""

    def configure(self, round: int, exchange: str) -> Record:
        return _prototypes_of(self.spec)

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        return {"total": float(sum(update.record.prototypes.sum(dtype=np.float64) for update in updates))}

    def arrays(self) -> Mapping[str, np.ndarray]:
        return {"prototypes": _prototypes_of(self.spec).prototypes}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        pass


class NoopClient(Client):
    """Trains nothing and keeps nothing."""

    def receive(self, exchange: str, downlink: Any) -> None:
        pass

    def local_train(self, exchange: str, seed: int, on_progress: Any) -> float:
        return 0.0

    def uplink(self, exchange: str) -> Record:
        return _prototypes_of(self.spec)

    def arrays(self) -> dict[str, np.ndarray]:
        return {}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        pass


def _sizes(facts: Facts) -> dict[str, int]:
    return {"C": facts.num_classes, "D": facts.feature_dim}


METHOD = Method(
    name="noop",
    summary="computes nothing, for benchmarks",
    paper="none",
    config=Config,
    exchanges=(Exchange("prototypes", Prototypes, Prototypes, _sizes, _sizes),),
    server="noop:NoopServer",
    client="noop:NoopClient",
    default_rule="",
    needs_net=False,
)


class KeeperConfig(Section, frozen=True):
    """How large a client's state is."""

    state_bytes: Positive = 100_000


class KeeperClient(NoopClient):
    """Computes nothing as well, and counts its rounds in a state of its own."""

    def start(self, context: Any) -> None:
        super().start(context)
        self._state = np.zeros(self.config.state_bytes, np.uint8)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"state": self._state}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._state = np.array(arrays["state"]) + np.uint8(1)


KEEPER = replace(METHOD, name="keeper", config=KeeperConfig, client="noop:KeeperClient")


class SizedConfig(Section, frozen=True):
    """The shape of the one array that travels, and the file to which rounds are noted, see `peers/marks.py`."""

    rows: Positive = 10
    width: Positive = 50
    marks: str = ""


@dataclass(frozen=True)
class Array(Record):
    """What travels, both ways."""

    array: np.ndarray = values("R", "W")


class SizedServer(NoopServer):
    """Averages what comes and sends that: by train samples and in float32, as the peers' FedAvg does."""

    def __init__(self, spec: Any, config: SizedConfig) -> None:
        super().__init__(spec, config)
        self._mean = np.zeros((config.rows, config.width), np.float32)
        self._sent_s = 0.0
        self._file = os.open(config.marks, os.O_WRONLY | os.O_APPEND | os.O_CREAT) if config.marks else None

    def configure(self, round: int, exchange: str) -> Record:
        self._sent_s = time.monotonic()
        return Array(self._mean)

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        came_s, num_results = time.monotonic(), 0
        total, scaled, num = np.zeros_like(self._mean), np.empty_like(self._mean), 0
        for update in updates:
            total += np.multiply(update.record.array, np.float32(update.num_train), out=scaled)
            num += update.num_train
            num_results += 1
        self._mean = total / np.float32(num)
        self._note(came_s, num_results)
        return {}

    def _note(self, came_s: float, num_results: int) -> None:
        if self._file is not None:
            os.write(self._file, f"{self._sent_s} {came_s} {num_results}\n".encode())

    def arrays(self) -> Mapping[str, np.ndarray]:
        return {"mean": self._mean}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._mean = arrays.get("mean", np.zeros_like(self._mean))


class SizedClient(NoopClient):
    """Computes nothing as well, and sends an array of its own, another one each time."""

    def start(self, context: Any) -> None:
        super().start(context)
        self._own = float(context.client.rpartition("-")[2])

    def uplink(self, exchange: str) -> Record:
        self._own += 0.001
        return Array(np.full((self.config.rows, self.config.width), self._own, np.float32))


def _shape(facts: Facts) -> dict[str, int]:
    return {"R": facts.config.rows, "W": facts.config.width}


SIZED = replace(
    METHOD,
    name="sized",
    config=SizedConfig,
    exchanges=(Exchange("array", Array, Array, _shape, _shape),),
    server="noop:SizedServer",
    client="noop:SizedClient",
)
