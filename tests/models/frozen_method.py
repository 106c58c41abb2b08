"""A method with a frozen extractor, for tests: a fixed projection of the samples, whose class statistics go up noised.

The server half adds up what came; an absent client is simply not in the sums. No net, no torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from models import seeding
from models.methods.api import Client, Exchange, Facts, Method, Server, Update
from models.spec import Section
from wire.payload import Nothing, Record, values

NAMES = ("sums", "squares", "counts")


@dataclass(frozen=True)
class Statistics(Record):
    """Those of all classes: which of them a client has must not show."""

    sums: np.ndarray = values("K", "D")
    squares: np.ndarray = values("K", "D")
    counts: np.ndarray = values("K")


def extract(x: np.ndarray, feature_dim: int) -> np.ndarray:
    """Return features [B, D]: what every device would make of these samples, whatever it has seen."""
    flat = x.reshape(len(x), -1)
    features: np.ndarray = flat @ seeding.generator(0, "extractor").normal(size=(flat.shape[1], feature_dim))
    return features


class StatisticsServer(Server):
    """Holds the sums over the clients of the last round."""

    def __init__(self, spec: Any, config: Any) -> None:
        super().__init__(spec, config)
        self.load({})

    def configure(self, round: int, exchange: str) -> Record:
        """Send nothing."""
        return Nothing()

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Add up."""
        came = list(updates)
        self._held = {
            name: sum((getattr(one.record, name).astype(np.float64) for one in came), np.zeros(1)) for name in NAMES
        }
        return {"num_updates": float(len(came))}

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the sums."""
        return self._held

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up the sums."""
        self._held = dict(arrays)


class StatisticsClient(Client):
    """Sends the noised statistics of its features."""

    def receive(self, exchange: str, downlink: Any) -> None:
        """Nothing comes."""

    def uplink(self, exchange: str) -> Record:
        """Return the statistics."""
        context = self.context
        assert context.release is not None
        features_BD = extract(np.asarray(context.train_x), self.spec.model.feature_dim)
        told = context.release.class_statistics(features_BD, np.asarray(context.train_y))
        return Statistics(*(array.astype(np.float32) for array in told))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return nothing: all follows from samples and secret."""
        return {}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up nothing."""


def _dims(facts: Facts) -> dict[str, int]:
    return {"K": facts.num_classes, "D": facts.feature_dim}


METHOD = Method(
    name="frozen",
    summary="noised class statistics of fixed features, for tests",
    paper="none",
    config=Section,
    exchanges=(Exchange("statistics", Nothing, Statistics, lambda facts: {}, _dims, trains=False),),
    server=f"{__name__}:StatisticsServer",
    client=f"{__name__}:StatisticsClient",
    default_rule="",
    needs_net=False,
    frozen_extractor=True,
)
