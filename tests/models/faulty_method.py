"""A method with one fault, which its settings name, for tests of what is told of it. No net, no torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.methods.api import Client, Exchange, Facts, Method, Server, Update
from models.spec import RunSpec, Section
from wire.payload import Record, values


class Settings(Section, frozen=True):
    """Which part is faulty."""

    fault: str = ""


def spoil(fault: str, part: str) -> None:
    """Raise in this part, or leave it by `sys.exit`, if that is the fault."""
    if fault == f"{part} raises":
        raise ValueError("two\n  lines")
    if fault == f"{part} exits":
        sys.exit(3)


_METRICS: dict[str, Any] = {
    "metrics": None,
    "metric": {"loss": "good"},
    "metric array": {"loss": np.arange(50.0)},
    "metric name": {1: 2.0},
    "metric nan": {"loss": np.nan, "norm": 2.0},
}


@dataclass(frozen=True)
class Mean(Record):
    """One vector."""

    mean: np.ndarray = values("D")


class MeanServer(Server):
    """Holds a vector of ones."""

    def __init__(self, spec: Any, config: Any) -> None:
        super().__init__(spec, config)
        self._mean = np.ones(spec.model.feature_dim, np.float32)

    def configure(self, round: int, exchange: str) -> Record:
        """Send the vector."""
        spoil(self.config.fault, "configure")
        return Mean(self._mean * np.float32(np.nan if self.config.fault == "downlink" else 1))

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Leave the vector as it is."""
        if self.config.fault == "state":
            self._mean = self._mean * np.float32(np.inf)
        spoil(self.config.fault, "aggregate")
        told: Any = _METRICS.get(self.config.fault, {})
        return told  # type: ignore[no-any-return]

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the vector."""
        mean: Any = [1.0] if self.config.fault == "list" else self._mean
        return {"mean": mean}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up the vector."""
        self._mean = arrays["mean"]


class MeanClient(Client):
    """Sends the vector back."""

    def receive(self, exchange: str, downlink: Any) -> None:
        """Take up the vector."""
        self._mean = downlink.mean

    def uplink(self, exchange: str) -> Record:
        """Return the vector."""
        spoil(self.config.fault, "uplink")
        mean = Mean(self._mean * np.float32(np.nan if self.config.fault == "uplink" else 1))
        if self.config.fault == "large uplink":
            mean = Mean(np.zeros(20_000, np.float32))
        made: Any = None if self.config.fault == "no uplink" else mean
        return made  # type: ignore[no-any-return]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return nothing."""
        return {}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up nothing."""


def _down(facts: Facts) -> dict[str, int]:
    sizes: Any = {"downlink_dims": {}, "no downlink_dims": None}
    return sizes.get(facts.config.fault, {"D": facts.feature_dim})  # type: ignore[no-any-return]


def _up(facts: Facts) -> dict[str, int]:
    spoil(facts.config.fault, "uplink_dims")
    return {} if facts.config.fault == "uplink_dims" else {"D": facts.feature_dim}


def _notes(spec: RunSpec, config: Settings) -> list[str]:
    return [f"the fault is {config.fault!r} in {spec.num_rounds} rounds"]


METHOD = Method(
    name="faulty",
    summary="a vector that goes down and up, with one fault, for tests",
    paper="none",
    config=Settings,
    exchanges=(Exchange("mean", Mean, Mean, _down, _up, trains=False),),
    notes=_notes,
    server=f"{__name__}:MeanServer",
    client=f"{__name__}:MeanClient",
    default_rule="",
    needs_net=False,
)
