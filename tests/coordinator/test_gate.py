"""The gate: numbers that cannot be right are refused by field and class, all others pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from coordinator.config import GateSection
from coordinator.gate import Gate
from wire.errors import RecordError
from wire.payload import Record, class_ids, counts, values

CLASSES = ["cat", "dog", "owl"]
ANNOUNCED = [4, 0, 6]


@dataclass(frozen=True)
class Uplink(Record):
    steps: np.ndarray = counts("one", of_samples=False)
    prototypes: np.ndarray = values("C", "D")
    counts: np.ndarray = counts("C")
    classes: np.ndarray = class_ids("C")
    bias: np.ndarray = values("B")
    rows: np.ndarray = values("R", "D")


def uplink(**changes: Any) -> Uplink:
    fields: dict[str, Any] = {
        "prototypes": np.ones((2, 3), np.float32),
        "counts": np.array([4, 6], np.uint32),
        "classes": np.array([0, 2], np.uint16),
        "bias": np.zeros(4, np.float32),
        "rows": np.zeros((5, 3), np.float32),
        "steps": np.array([10**6], np.uint32),
    }
    return Uplink(**{**fields, **changes})


def refused(record: Uplink, **settings: Any) -> str:
    with pytest.raises(RecordError) as caught:
        Gate(GateSection(**settings), CLASSES).check(record, ANNOUNCED)
    return str(caught.value)


def test_what_is_usual_passes() -> None:
    Gate(GateSection(), CLASSES).check(uplink(), ANNOUNCED)


@pytest.mark.parametrize("name", ["prototypes", "counts", "classes", "bias", "rows"])
def test_empty_arrays_pass(name: str) -> None:
    empty = {"prototypes": np.zeros((0, 3), np.float32), "rows": np.zeros((5, 0), np.float32)}
    Gate(GateSection(max_norm=9.0), CLASSES).check(uplink(**{name: empty.get(name, np.zeros(0, np.uint32))}), ANNOUNCED)


@pytest.mark.parametrize("value", [1001.0, -1001.0])
def test_a_value_out_of_range_is_named_with_its_class(value: float) -> None:
    prototypes = np.ones((2, 3), np.float32)
    prototypes[1, 2] = value
    assert refused(uplink(prototypes=prototypes), max_abs=1000.0) == (
        "field 'prototypes', class 'owl': expected up to [gate] max_abs = 1000, got 1001"
    )


def test_without_a_class_the_row_is_named_if_there_are_several() -> None:
    bias, rows = np.full(4, 2e9, np.float32), np.zeros((5, 3), np.float32)
    rows[3] = 2e9
    assert refused(uplink(bias=bias)) == "field 'bias': expected up to [gate] max_abs = 1e+09, got 2e+09"
    assert refused(uplink(rows=rows)).startswith("field 'rows', row 3: expected up to")


def test_the_limits_themselves_pass() -> None:
    gate = Gate(GateSection(max_abs=4.0, max_norm=5.0), CLASSES)
    gate.check(uplink(rows=np.array([[3, 4, 0], [0, -4, 3]], np.float32)), ANNOUNCED)


def test_a_norm_above_the_limit_is_refused_though_every_value_is_small() -> None:
    text = refused(uplink(prototypes=np.full((2, 3), 3, np.float32)), max_norm=5.0)
    assert text == "field 'prototypes', class 'cat': expected up to [gate] max_norm = 5, got 5.19615"


def test_the_largest_singles_have_a_norm() -> None:
    largest = np.full((2, 3), np.finfo(np.float32).max, np.float32)
    assert "max_norm = 5" in refused(uplink(prototypes=largest), max_abs=1e39, max_norm=5.0)


@pytest.mark.parametrize("came", [[5, 6], [2**32 - 1, 2**32 - 1]])
def test_more_samples_than_announced_are_refused(came: list[int]) -> None:
    text = refused(uplink(counts=np.array(came, np.uint32)))
    assert text == f"field 'counts': expected at most the 10 samples that it announced, got {sum(came)}"


def test_more_samples_of_a_class_than_announced_are_refused_by_its_name() -> None:
    text = refused(uplink(counts=np.array([5, 1], np.uint32)))
    assert text == "field 'counts', class 'cat': expected at most the 4 samples that it announced, got 5"
    text = refused(uplink(counts=np.array([1, 1], np.uint32), classes=np.array([0, 1], np.uint16)))
    assert text == "field 'counts', class 'dog': expected at most the 0 samples that it announced, got 1"


@dataclass(frozen=True)
class OfAllClasses(Record):
    counts: np.ndarray = counts("K")


def test_counts_of_the_whole_label_map_are_those_of_its_classes() -> None:
    gate = Gate(GateSection(), CLASSES)
    gate.check(OfAllClasses(np.array(ANNOUNCED, np.uint32)), ANNOUNCED)
    with pytest.raises(RecordError, match="class 'dog': expected at most the 0 samples that it announced, got 2"):
        gate.check(OfAllClasses(np.array([2, 2, 6], np.uint32)), ANNOUNCED)


@dataclass(frozen=True)
class Deep(Record):
    mixtures: np.ndarray = values("C", "N", "D")
    classes: np.ndarray = class_ids("C")


def test_a_row_of_a_deeper_array_is_named_for_its_class() -> None:
    mixtures = np.zeros((2, 3, 4), np.float32)
    mixtures[1, 2, 0] = 2e9
    record = Deep(mixtures, np.array([0, 2], np.uint16))
    with pytest.raises(RecordError, match="field 'mixtures', class 'owl': expected up to"):
        Gate(GateSection(), CLASSES).check(record, ANNOUNCED)
