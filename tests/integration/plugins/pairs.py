"""A numpy-only method with two exchanges a round, for tests: no net, no torch, and results that anyone can recompute.

Exchange `sums`: every client sends the sum and the count of its labels; the server keeps the mean.
Exchange `echoes`: the server sends that mean, every client adds its own state to it and sends the result; the server
sums over the samples of this round and divides by those of the run. The clients' state counts the rounds whose outcome
stood, so a round that is not put back shows.

`[model] feature_dim` says how many values travel. A file in the folder `gates` holds up whoever it is named after: a
client in its training, or `server-<exchange>` in its aggregation. `<name>.here` shows that it has got there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from models import seeding
from models.methods.api import Client, Exchange, Facts, Method, RoundFailedError, Server, Update
from models.spec import Section
from wire.payload import Nothing, Record, counts, values

SPIN_STEPS = 20_000_000
"""Additions in one go, for a good part of a second, while no other thread of the process gets the GIL."""


class Config(Section, frozen=True):
    """The folder of the gates (empty: there are none), and a client whose second uplink is a hundred times as wide."""

    gates: str = ""
    oversize: str = ""


@dataclass(frozen=True)
class Sums(Record):
    """The sum of the labels and the number of samples behind it."""

    sums: np.ndarray = values("W")
    num: np.ndarray = counts("one")


@dataclass(frozen=True)
class Means(Record):
    """What the server made of the sums."""

    means: np.ndarray = values("W")


@dataclass(frozen=True)
class Echoes(Record):
    """The means with the client's own state on top."""

    echoes: np.ndarray = values("W")
    num: np.ndarray = counts("one")


def _wide(facts: Facts) -> dict[str, int]:
    return {"W": facts.feature_dim, "one": 1}


def pass_gate(gates: str, name: str, on_progress: Callable[[int, int], None] | None = None) -> None:
    """Wait while the gate is closed, in the way that its file says: sleep, report progress, spin, fail once or die."""
    while gates and (how := _closed(Path(gates) / name)) is not None:
        (Path(gates) / f"{name}.here").touch()
        if how == "spin":
            sum(range(SPIN_STEPS))
        elif how == "fail":
            (Path(gates) / name).unlink()
            raise RoundFailedError("the gate says so")
        elif how == "die":
            os._exit(1)
        elif how == "report" and on_progress is not None:
            on_progress(0, 1)
        time.sleep(0.01)


def _closed(gate: Path) -> str | None:
    try:
        return gate.read_text()
    except FileNotFoundError:
        return None


class PairsServer(Server):
    """Keeps the mean of the echoes; the mean of the sums lives within a round."""

    def __init__(self, spec: Any, config: Any) -> None:
        super().__init__(spec, config)
        self.load({})

    def constants(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return one run constant, so that its way to the clients is tested too."""
        draw = seeding.generator(self.spec.seed, "server", "constant")
        return {"offset": {"offset": draw.standard_normal(self.spec.model.feature_dim).astype(np.float32)}}

    def configure(self, round: int, exchange: str) -> Record:
        """Send nothing, then the means."""
        return Nothing() if exchange == "sums" else Means(self._means)

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Sum by sample count, in float64, and divide."""
        pass_gate(self.config.gates, f"server-{exchange}")
        total, weight = np.zeros(self.spec.model.feature_dim, np.float64), 0
        for update in updates:
            array = update.record.sums if exchange == "sums" else update.record.echoes * update.record.num
            total += np.asarray(array, np.float64)
            weight += int(update.record.num[0])
        if weight == 0:
            raise RoundFailedError("the total weight is 0")
        mean = (total / (weight if exchange == "sums" else self.num_train)).astype(np.float32)
        if exchange == "sums":
            self._means = mean
        else:
            self._echoes = mean
        return {"weight": float(weight)}

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return both means."""
        return {"means": self._means, "echoes": self._echoes}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up both means."""
        nothing = np.zeros(self.spec.model.feature_dim, np.float32)
        self._means, self._echoes = arrays.get("means", nothing), arrays.get("echoes", nothing)


class PairsClient(Client):
    """Its state is the number of rounds that stood for it, and the last means."""

    _rounds: np.ndarray
    _means: np.ndarray

    def start(self, context: Any) -> None:
        """Take up data and the constant."""
        super().start(context)
        self.load({"rounds": np.zeros(1, np.int64), "means": np.zeros(self.spec.model.feature_dim, np.float32)})

    def receive(self, exchange: str, downlink: Any) -> None:
        """Keep the means of the second exchange."""
        if exchange == "echoes":
            self._means = downlink.means
            self._rounds = self._rounds + 1

    def local_train(self, exchange: str, seed: int, on_progress: Any) -> float:
        """Pretend to train: pass the gate."""
        pass_gate(self.config.gates, self.context.client, on_progress)
        if on_progress is not None:
            on_progress(1, 1)
        return 0.0

    def uplink(self, exchange: str) -> Record:
        """Send the sum of the labels, then the means with the own state on top."""
        num = np.array([len(self.context.train_y)], np.uint32)
        if exchange == "sums":
            labels = np.asarray(self.context.train_y, np.float64)
            return Sums(np.full(self.spec.model.feature_dim, labels.sum(), np.float64).astype(np.float32), num)
        if self.config.oversize == self.context.client:
            return Echoes(np.zeros(100 * self.spec.model.feature_dim, np.float32), num)
        own = seeding.generator(self.spec.seed, "client", self.context.client, int(self._rounds[0]))
        drawn = own.standard_normal(self.spec.model.feature_dim).astype(np.float32)
        return Echoes(self._means + drawn + self.context.constants["offset"]["offset"], num)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state."""
        return {"rounds": self._rounds, "means": self._means}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up a state."""
        self._rounds, self._means = np.array(arrays["rounds"]), np.array(arrays["means"])


def nobody(labels: np.ndarray, config: Any, random: np.random.Generator) -> list[np.ndarray]:
    """Give no client anything: a partition."""
    return [np.zeros(0, np.int64) for _ in range(config.num_clients)]


METHOD = Method(
    name="pairs",
    summary="two exchanges a round, for tests",
    paper="none",
    config=Config,
    exchanges=(
        Exchange("sums", Nothing, Sums, _wide, _wide, trains=False),
        Exchange("echoes", Means, Echoes, _wide, _wide),
    ),
    server=f"{__name__}:PairsServer",
    client=f"{__name__}:PairsClient",
    default_rule="",
    needs_net=False,
)
