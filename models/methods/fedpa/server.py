"""The server half of FedPA: prototypes, then models, then the generator that learns from the clients' classifiers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from models.methods.api import RoundFailedError, Server, Update
from models.methods.fedavg.server import add_named
from models.methods.fedpa import Downlink, Uplink
from models.methods.fedpa.generator import label_distribution
from models.methods.fedpa.generator_training import GeneratorTraining, Teachers
from models.methods.fedpa.losses import Classifiers
from models.nets import flatten_buffers, flatten_parameters
from models.prototypes import ClassSums, WeightedMean
from models.spec import RunSpec
from wire.payload import Record

_NOTHING = np.zeros(0, np.float32)
_LARGEST_COUNT = 2**32 - 1


class FedPaServer(Server):
    """Holds model, prototypes, label counter and generator; of a round's clients it keeps no more than classifiers."""

    _label_counts: np.ndarray
    _age: int

    def __init__(self, spec: RunSpec, config: Any) -> None:
        super().__init__(spec, config)
        self.load({})

    def configure(self, round: int, exchange: str) -> Record:
        """Return the global state, empty before the first aggregate."""
        label_counts, parameters, buffers = np.zeros(0, np.uint32), _NOTHING, _NOTHING
        if self._age and self._training:
            label_counts = _as_counts(self._label_counts)
            parameters, buffers = (make(self._training.generator) for make in (flatten_parameters, flatten_buffers))
        return Downlink(
            self._parameters,
            self._buffers,
            self._prototypes_CD,
            self._classes,
            label_counts,
            parameters,
            buffers,
            self._age,
        )

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Average prototypes and models of all clients that have trained, and train the generator on their heads."""
        cohort = _Cohort(self.spec.num_classes, self.spec.model.feature_dim)
        for update in updates:
            cohort.add(update, self.config.uses_prototypes)
        if not cohort.parameters.weight:
            raise RoundFailedError(f"round {round}: none of {cohort.num_updates} updates has a train sample")
        table_CD, classes = self._merged(*cohort.prototypes.means())  # Eq. (3)
        parameters, buffers = cohort.parameters.mean(), cohort.buffers.mean()  # Algorithm 1, line 9
        label_counts = self._label_counts + cohort.counts_KC.sum(axis=0)
        told = self._train_generator(cohort, table_CD, label_counts, round)
        self._prototypes_CD, self._classes = table_CD[classes], classes.astype(np.uint16)
        self._parameters, self._buffers = parameters.astype(np.float32), buffers.astype(np.float32)
        self._label_counts = label_counts
        self._age += 1
        return {"num_updates": float(cohort.num_updates), "num_train": cohort.parameters.weight, **told}

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return everything, the generator's optimizer included."""
        own = {
            "parameters": self._parameters,
            "buffers": self._buffers,
            "prototypes": self._prototypes_CD,
            "classes": self._classes,
            "label_counts": self._label_counts,
            "age": np.array([self._age], np.int64),
        }
        return {**own, **(self._training.arrays() if self._training else {})}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up a state."""
        self._parameters = arrays.get("parameters", _NOTHING)
        self._buffers = arrays.get("buffers", _NOTHING)
        self._prototypes_CD = arrays.get("prototypes", np.zeros((0, self.spec.model.feature_dim), np.float32))
        self._classes = arrays.get("classes", np.zeros(0, np.uint16))
        self._label_counts = arrays.get("label_counts", np.zeros(self.spec.num_classes, np.int64))
        self._age = int(arrays["age"][0]) if "age" in arrays else 0
        self._training = GeneratorTraining(self.spec, self.config) if self.config.uses_generator else None
        if self._training and arrays:
            self._training.load(arrays)

    def _merged(self, means_CD: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a row for each class of the label map, its new prototype or else the old, and the known classes."""
        table_CD = np.zeros((self.spec.num_classes, self.spec.model.feature_dim), np.float32)
        table_CD[self._classes] = self._prototypes_CD
        table_CD[classes] = means_CD
        return table_CD, np.union1d(self._classes, classes)

    def _train_generator(
        self, cohort: _Cohort, table_CD: np.ndarray, label_counts: np.ndarray, round: int
    ) -> dict[str, float]:
        if not self._training:
            return {}
        held_now = cohort.counts_KC.any(axis=0)
        distribution_C = label_distribution(label_counts * held_now, self.config.labels)
        teachers = Teachers(cohort.classifiers(), torch.from_numpy(table_CD), distribution_C)
        told = self._training.train(teachers, round, self._age)
        return {**told, **self._training.describe(np.flatnonzero(label_counts))}


class _Cohort:
    """The sums over a round's updates, and the classifiers of those that have trained."""

    def __init__(self, num_classes: int, feature_dim: int) -> None:
        self._head = (num_classes, feature_dim)
        self._heads: list[np.ndarray] = []
        self._counts: list[np.ndarray] = []
        self.prototypes = ClassSums(num_classes, feature_dim)
        self.parameters, self.buffers = WeightedMean(), WeightedMean()
        self.num_updates = 0

    @property
    def counts_KC(self) -> np.ndarray:
        """Train samples of each client and class, int64."""
        return np.stack(self._counts).astype(np.int64)

    def add(self, update: Update, has_prototypes: bool) -> None:
        """Take in one update; one without train samples has no weight."""
        self.num_updates += 1
        record, num_train = update.record, int(update.record.counts.sum(dtype=np.int64))
        if not num_train:
            return
        if has_prototypes:
            self.prototypes.add(record.prototypes, record.classes, record.counts[record.classes])
        add_named(self.parameters, update.client, "parameters", record.parameters, num_train)
        add_named(self.buffers, update.client, "buffers", record.buffers, num_train)
        self._heads.append(self._sliced_head(record))
        self._counts.append(record.counts)

    def classifiers(self) -> Classifiers:
        """Return the heads, with each client's share of a class among these clients."""
        num_classes, feature_dim = self._head
        heads = torch.from_numpy(np.stack(self._heads))
        weights, biases = heads.split([num_classes * feature_dim, num_classes], dim=1)
        shares_KC = self.counts_KC / np.maximum(self.counts_KC.sum(axis=0), 1)
        return Classifiers(
            weights.reshape(-1, num_classes, feature_dim), biases, torch.from_numpy(shares_KC.astype(np.float32))
        )

    def _sliced_head(self, record: Uplink) -> np.ndarray:
        """Return a copy of the head in a flat model, so that the rest of it can go."""
        num_classes, feature_dim = self._head
        head = slice(record.classifier_at, record.classifier_at + num_classes * (feature_dim + 1))
        return np.array(record.parameters[head], np.float32)


def _as_counts(label_counts: np.ndarray) -> np.ndarray:
    """Return the counter as uint32, all classes divided alike where one has grown too large, none of them to 0."""
    divisor = 1 + int(label_counts.max()) // _LARGEST_COUNT
    counts: np.ndarray = np.maximum(label_counts // divisor, label_counts > 0).astype(np.uint32)
    return counts
