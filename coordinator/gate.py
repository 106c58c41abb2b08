"""The gate: refuses an update whose numbers cannot be right, though its shape is.

It stands behind the checks of the record itself (`wire.payload`): what comes here is finite and has the shape that
follows from what its client announced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from coordinator.config import GateSection
from wire.errors import RecordError
from wire.payload import Declared, Record

_NO_CLASSES = np.zeros(0, np.int64)


class Gate:
    """The gate of one run."""

    def __init__(self, section: GateSection, classes: Sequence[str]) -> None:
        self._section = section
        self.classes = classes

    @property
    def num_classes(self) -> int:
        """Classes of the run's label map."""
        return len(self.classes)

    def check(self, record: Record, class_counts: Sequence[int]) -> None:
        """Refuse values out of range, and more samples, of a class or in all, than the client announced.

        Raises:
            RecordError: the text names the field, the class where there is one, what was expected and what came.
        """
        for spec in record.declared():
            content = getattr(record, spec.name)
            if spec.kind == "values":
                self._check_values(spec, content, record)
            elif spec.kind == "counts" and spec.of_samples:
                self._check_samples(spec, content, record, class_counts)

    def _check_values(self, spec: Declared, values: np.ndarray, record: Record) -> None:
        if not values.size:
            return
        rows = values.reshape(math.prod(values.shape[:-1]), -1)
        if max(float(values.max()), -float(values.min())) > self._section.max_abs:
            self._check_rows(spec, record, "max_abs", np.abs(rows).max(axis=1).astype(np.float64))
        if self._section.max_norm:
            self._check_rows(spec, record, "max_norm", np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1)))

    def _check_rows(self, spec: Declared, record: Record, setting: str, sizes: np.ndarray) -> None:
        """Refuse a field of which a row measures more than a setting allows."""
        most: float = getattr(self._section, setting)
        if (sizes > most).any():
            row = int(np.argmax(sizes > most))
            told = f"field {spec.name!r}{self._place(spec, row, record)}: expected up to [gate] {setting} = {most:g}"
            raise RecordError(f"{told}, got {sizes[row]:g}")

    def _check_samples(self, spec: Declared, counts: np.ndarray, record: Record, class_counts: Sequence[int]) -> None:
        where = f"field {spec.name!r}"
        _check_most(where, int(counts.sum(dtype=np.int64)), sum(class_counts))
        labels = self._classes_of(spec, record)
        most = np.asarray(class_counts)[labels]
        if most.shape == counts.shape and (counts > most).any():
            row = int(np.argmax(counts > most))
            _check_most(f"{where}, class {self.classes[labels[row]]!r}", int(counts[row]), int(most[row]))

    def _classes_of(self, spec: Declared, record: Record) -> np.ndarray:
        """Return the class of each entry of a field: those that the record names, or all; none for other entries."""
        dims = spec.dims
        if dims == ("K",):
            return np.arange(self.num_classes)
        ids = (other for other in record.declared() if other.kind == "class_ids")
        named = (getattr(record, other.name) for other in ids if other.dims == dims)
        return next(named, _NO_CLASSES)

    def _place(self, spec: Declared, row: int, record: Record) -> str:
        """Return the class that a row stands for, where the record says so, or else the row."""
        if len(spec.dims) == 1:
            return ""
        rows_of_each = math.prod(getattr(record, spec.name).shape[1:-1])
        label = record.class_of(spec, row // rows_of_each, self.classes)
        return f", class {label}" if label else f", row {row}"


def _check_most(where: str, count: int, most: int) -> None:
    if count > most:
        raise RecordError(f"{where}: expected at most the {most} samples that it announced, got {count}")
