"""The server half of GFPL: says when mixtures are due, and fuses those that come, class by class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from models import seeding
from models.methods.api import RoundFailedError, Server, Update
from models.methods.gfpl import Mixture, Mixtures, Schedule, Uplink, flattened, interacts
from models.methods.gfpl.etf import equiangular_frame
from models.methods.gfpl.fusion import Components, fuse
from models.spec import RunSpec
from wire.payload import Record


class GfplServer(Server):
    """Holds the fused mixture of every class of which one has come."""

    def __init__(self, spec: RunSpec, config: Any) -> None:
        super().__init__(spec, config)
        self._fused: dict[int, Mixture] = {}

    def constants(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the vectors of the fixed classifier."""
        if not self.config.dual_classifier:
            return {}
        random = seeding.generator(self.spec.seed, "server", "etf")
        return {"etf": {"vectors": equiangular_frame(self.config.projection_dim, self.spec.num_classes, random)}}

    def configure(self, round: int, exchange: str) -> Record:
        """Return first whether mixtures are due, then those that were made of them."""
        due = interacts(self.config, round)
        return Schedule(due) if exchange == "mixtures" else self._record(self._fused if due else {})

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Fuse what came of each class; a class of which nothing came stays as it is."""
        records = [update.record for update in updates]
        told = {"num_updates": float(len(records))}
        if exchange == "mixtures" and interacts(self.config, round):
            held = _by_class(records)
            if not held:
                raise RoundFailedError(f"round {round}: none of {len(records)} updates has a mixture")
            told |= self._fuse({label: _joined(parts, self.config.variance_floor) for label, parts in held.items()})
        return told

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the fused mixtures."""
        return self._record(self._fused).to_payload().arrays

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up fused mixtures."""
        self._fused = Mixtures(**arrays).by_class() if arrays else {}

    def _record(self, mixtures: Mapping[int, Mixture]) -> Mixtures:
        return Mixtures(**flattened(mixtures, self.spec.model.feature_dim))

    def _fuse(self, sent: Mapping[int, Components]) -> dict[str, float]:
        """Fuse the components of each class, and return what is left and how many each class has lost."""
        scale = self.spec.model.feature_dim if self.config.threshold_per_dim else 1
        told = {}
        for label, components in sorted(sent.items()):
            fused = fuse(components, self.config.threshold * scale, self.config.linkage)
            told[f"merges_{label}"] = float(len(components.weights) - len(fused.weights))
            self._fused[label] = _mixture(fused)
        left = sum(len(mixture.weights) for mixture in self._fused.values())
        return {"num_classes": float(len(self._fused)), "num_components": float(left), **told}


def _by_class(records: list[Uplink]) -> dict[int, list[tuple[int, Mixture]]]:
    """Return all mixtures by class with the samples that each stands for, in the order of the clients."""
    held: dict[int, list[tuple[int, Mixture]]] = defaultdict(list)
    for record in records:
        for (label, mixture), count in zip(record.by_class().items(), record.counts.tolist(), strict=True):
            if count:
                held[label].append((count, mixture))
    return held


def _joined(held: list[tuple[int, Mixture]], variance_floor: float) -> Components:
    """Return the components of one class, each weighted by its samples; those of no weight are left out."""
    shares = [(count, mixture.weights.astype(np.float64)) for count, mixture in held]
    weights = np.concatenate([count * share / share.sum() for count, share in shares])
    means = np.concatenate([mixture.means for _, mixture in held]).astype(np.float64)
    deviations = np.concatenate([mixture.deviations for _, mixture in held]).astype(np.float64)
    variances = np.maximum(np.square(deviations), variance_floor)
    return Components(*(array[weights > 0] for array in (weights, means, variances)))


def _mixture(components: Components) -> Mixture:
    """Return components as they travel, in single precision; what it cannot hold becomes the most that it can."""
    shares = components.weights / components.weights.sum()
    deviations = np.minimum(np.sqrt(components.variances), np.finfo(np.float32).max)
    return Mixture(*(array.astype(np.float32) for array in (shares, components.means, deviations)))
