"""A numpy-only method with two exchanges a round, for tests: no net, no torch, and results that anyone can recompute.

Exchange `sums`: every client sends the sum and count of its labels, weighted by a draw; the server keeps the mean.
Exchange `echoes`: the server sends that mean, every client adds its own state to it and sends the result; the server
averages. The clients' state counts the rounds whose outcome stood, so a round that is not put back shows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import seeding
from models.methods.api import Client, Exchange, Facts, Method, RoundFailedError, Server, Update
from models.spec import Section
from wire.payload import Nothing, Record, counts, values


STEPS = 20
"""Into how many steps pretended training is cut."""


class Config(Section, frozen=True):
    """How many values travel, and how long a client pretends to train, in seconds."""

    width: int = 8
    sleep_s: float = 0.0
    busy_s: float = 0.0


@dataclass(frozen=True)
class Sums(Record):
    """A weighted sum of labels and the number of samples behind it."""

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
    return {"W": 8, "one": 1}


class PairsServer(Server):
    """Keeps the mean of the echoes; the mean of the sums lives within a round."""

    def __init__(self, spec: Any, config: Any) -> None:
        super().__init__(spec, config)
        self.load({})

    def constants(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return one run constant, so that its way to the clients is tested too."""
        draw = seeding.generator(self.spec.seed, "server", "constant")
        return {"offset": {"offset": draw.standard_normal(self.config.width).astype(np.float32)}}

    def configure(self, round: int, exchange: str) -> Record:
        """Send nothing, then the means."""
        return Nothing() if exchange == "sums" else Means(self._means)

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Average by sample count, in float64."""
        total, weight = np.zeros(self.config.width, np.float64), 0
        for update in updates:
            array = update.record.sums if exchange == "sums" else update.record.echoes * update.record.num
            total += np.asarray(array, np.float64)
            weight += int(update.record.num[0])
        if weight == 0:
            raise RoundFailedError("the total weight is 0")
        mean = (total / weight).astype(np.float32)
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
        nothing = np.zeros(self.config.width, np.float32)
        self._means, self._echoes = arrays.get("means", nothing), arrays.get("echoes", nothing)


class PairsClient(Client):
    """Its state is the number of rounds that stood for it, and the last means."""

    _rounds: np.ndarray
    _means: np.ndarray

    def start(self, context: Any) -> None:
        """Take up data and the constant."""
        super().start(context)
        self.load({"rounds": np.zeros(1, np.int64), "means": np.zeros(self.config.width, np.float32)})

    def receive(self, exchange: str, downlink: Any) -> None:
        """Keep the means of the second exchange."""
        if exchange == "echoes":
            self._means = downlink.means
            self._rounds = self._rounds + 1

    def local_train(self, exchange: str, seed: int, on_progress: Any) -> float:
        """Pretend to train: sleep or spin, in steps."""
        for step in range(STEPS):
            if self.config.sleep_s:
                time.sleep(self.config.sleep_s / STEPS)
            until = time.monotonic() + self.config.busy_s / STEPS
            while self.config.busy_s and time.monotonic() < until:
                pass
            on_progress(step + 1, STEPS)
        return 0.0

    def uplink(self, exchange: str) -> Record:
        """Send a weighted sum, then the means with the own state on top."""
        num = np.array([len(self.context.train_y)], np.uint32)
        if exchange == "sums":
            labels = np.asarray(self.context.train_y, np.float64)
            return Sums(np.full(self.config.width, labels.sum(), np.float64).astype(np.float32), num)
        own = seeding.generator(self.spec.seed, "client", self.context.client, int(self._rounds[0]))
        drawn = own.standard_normal(self.config.width).astype(np.float32)
        return Echoes(self._means + drawn + self.context.constants["offset"]["offset"], num)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state."""
        return {"rounds": self._rounds, "means": self._means}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up a state."""
        self._rounds, self._means = np.array(arrays["rounds"]), np.array(arrays["means"])


METHOD = Method(
    name="pairs",
    summary="two exchanges a round, for tests",
    paper="none",
    config=Config,
    exchanges=(
        Exchange("sums", Nothing, Sums, _wide, _wide, trains=False),
        Exchange("echoes", Means, Echoes, _wide, _wide),
    ),
    server="pairs:PairsServer",
    client="pairs:PairsClient",
    default_rule="",
    needs_net=False,
)
