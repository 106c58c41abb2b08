"""The server half of RefProtoFL: anchors from prototypes, and the adapter averaged entry by entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from models.data import load_public_data
from models.methods.api import RoundFailedError, Server, Update, expect_finite
from models.methods.refprotofl import AdapterDown, AnchorsDown, adapter_size, initial_adapter
from models.robust import class_sums
from models.spec import RunSpec
from wire.payload import Record


class RefProtoFLServer(Server):
    """Holds the adapter and the last anchor of every class that has had one."""

    def __init__(self, spec: RunSpec, config: Any) -> None:
        super().__init__(spec, config)
        self._size = adapter_size(config, spec.model.feature_dim, spec.num_classes)
        self.load({})

    def constants(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the public samples as the data set stores them, and their class ids, if they are of use."""
        if not (self.config.aligns and self.spec.data.num_public_classes):
            return {}
        public = load_public_data(self.spec)
        return {"public": {"x": public.x, "y": public.y.astype(np.uint16)}}

    def configure(self, round: int, exchange: str) -> Record:
        """Return the adapter, empty before the first average, or the anchors."""
        if exchange == "prototypes":
            return AdapterDown(self._adapter)
        return AnchorsDown(self._anchors_CM, self._classes)

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Make anchors from prototypes, or the next adapter from what clients sent of theirs."""
        if exchange == "adapter":
            return self._average(round, updates)
        return self._align(round, updates) if self.config.aligns else {}

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return adapter and anchors."""
        return {"adapter": self._adapter, "anchors": self._anchors_CM, "anchor_classes": self._classes}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up adapter and anchors."""
        self._adapter = arrays.get("adapter", np.zeros(0, np.float32))
        self._anchors_CM = arrays.get("anchors", np.zeros((0, self.config.adapter_dim), np.float32))
        self._classes = arrays.get("anchor_classes", np.zeros(0, np.uint16))

    def _align(self, round: int, updates: Iterator[Update]) -> Mapping[str, float]:
        """Average public prototypes evenly over the clients that sent them, local ones by their train samples."""
        sums = class_sums(self.config.aggregation, self.spec.num_classes, self.config.adapter_dim)
        num_updates = 0
        for update in updates:
            num_updates += 1
            record = update.record
            public_classes = np.arange(len(record.public))
            sums.add(record.public, public_classes, np.ones(len(record.public)))  # Eq. (14)
            sums.add(record.local, record.classes, record.counts)  # Eq. (15)
        anchors_CM, classes = sums.means()  # Eq. (16)
        if not len(classes):
            raise RoundFailedError(f"round {round}: none of {num_updates} updates has a prototype")
        self._renew(anchors_CM, classes)
        return {"num_updates": float(num_updates), "num_classes": float(len(classes)), **sums.metrics()}

    def _average(self, round: int, updates: Iterator[Update]) -> Mapping[str, float]:
        """Average each entry over the clients that sent it, by their train samples; others stay as they are."""
        sums, weights = np.zeros(self._size), np.zeros(self._size)
        num_updates = 0
        for update in updates:
            num_updates += 1
            record = update.record
            weight = float(record.num_train[0])
            sums[record.positions] += weight * record.entries.astype(np.float64)
            weights[record.positions] += weight
        was_sent = weights > 0  # Eq. (6)
        if not was_sent.any():
            raise RoundFailedError(f"round {round}: none of {num_updates} updates has a train sample")
        adapter = self._adapter if self._adapter.size else initial_adapter(self.spec, self.config)
        means = sums[was_sent] / weights[was_sent]
        renewed = adapter.astype(np.float64)
        renewed[was_sent] = means + (renewed[was_sent] if self.config.payload == "delta" else 0)  # Eq. (7)
        self._adapter = expect_finite(renewed, round, "the adapter", "[training] lr")
        return {"num_updates": float(num_updates), "num_entries_sent": float(was_sent.sum())}

    def _renew(self, anchors_CM: np.ndarray, classes: np.ndarray) -> None:
        """Take these anchors in place of the last ones of their classes."""
        all_classes = np.union1d(self._classes, classes)
        merged_CM = np.empty((len(all_classes), self.config.adapter_dim), np.float32)
        merged_CM[np.searchsorted(all_classes, self._classes)] = self._anchors_CM
        merged_CM[np.searchsorted(all_classes, classes)] = anchors_CM
        self._anchors_CM, self._classes = merged_CM, all_classes.astype(np.uint16)
