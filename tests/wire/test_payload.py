"""Payloads and records: what a method declares, what it costs, and what is refused before a method sees it."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from wire.encoding import decode, encode, pack, unpack
from wire.errors import RecordError
from wire.messages import Update
from wire.payload import EMPTY, Nothing, Payload, Record, Sizes, Tensor, class_ids, counts, scalar, values


@dataclass(frozen=True)
class Uplink(Record):
    prototypes: np.ndarray = values("C", "D")
    counts: np.ndarray = counts("C")
    classes: np.ndarray = class_ids("C")
    stage: str = scalar()
    scale: float = scalar()
    step: int = scalar()
    first: bool = scalar()


def sample(**changes: Any) -> Uplink:
    fields = {
        "prototypes": np.arange(6, dtype=np.float32).reshape(2, 3),
        "counts": np.array([4, 5]),
        "classes": np.array([1, 7]),
        "stage": "tune",
        "scale": 0.5,
        "step": 3,
        "first": True,
    }
    return Uplink(**{**fields, **changes})


def through_the_wire(payload: Payload) -> Payload:
    packed = decode(encode(Update(7, 1, 0), pack(payload)))[1]
    assert packed is not None
    return unpack(packed)


@pytest.mark.parametrize("value_dtype", ["f32", "f16", "bf16"])
def test_a_record_comes_back_through_the_wire(value_dtype: str) -> None:
    back = Uplink.from_payload(through_the_wire(sample().to_payload(value_dtype)), {"D": 3, "K": 10})
    assert np.array_equal(back.prototypes, sample().prototypes)
    assert back.prototypes.dtype == np.float32
    assert back.counts.tolist() == [4, 5]
    assert back.classes.tolist() == [1, 7]
    assert (back.stage, back.scale, back.step, back.first) == ("tune", 0.5, 3, True)


@pytest.mark.parametrize(("value_dtype", "value_bytes"), [("f32", 4), ("f16", 2), ("bf16", 2)])
def test_predicted_sizes_are_those_of_the_payload_and_of_what_travels(value_dtype: str, value_bytes: int) -> None:
    payload = sample().to_payload(value_dtype)
    expected = Sizes(elements=6, payload_bytes=6 * value_bytes + 2 * 4 + 2 * 2)
    assert Uplink.sizes({"C": 2, "D": 3}, value_dtype) == payload.sizes == pack(payload).sizes == expected


def test_the_record_of_nothing_costs_nothing() -> None:
    assert Nothing().to_payload() == EMPTY
    assert Nothing.sizes({}) == EMPTY.sizes == Sizes(0, 0)
    assert Nothing.from_payload(EMPTY) == Nothing()


def test_a_record_without_classes_is_a_record() -> None:
    empty = sample(prototypes=np.zeros((0, 3)), counts=np.array([], int), classes=np.array([], int))
    assert Uplink.from_payload(through_the_wire(empty.to_payload()), {"D": 3, "K": 10}).prototypes.shape == (0, 3)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a count too few": ({"counts": np.array([4])}, "'counts': expected C = 2, got 1"),
    "another width": ({"prototypes": np.zeros((2, 4))}, "'prototypes': expected D = 3, got 4"),
    "another rank": ({"prototypes": np.zeros(2)}, "'prototypes': expected 2 dimensions"),
    "a class twice": ({"classes": np.array([1, 1])}, "'classes': expected strictly increasing"),
    "classes out of order": ({"classes": np.array([7, 1])}, "'classes': expected strictly increasing"),
    "a class outside the label map": ({"classes": np.array([1, 10])}, "'classes': expected class ids below 10, got 10"),
    "a scalar that is not finite": ({"scale": float("nan")}, "'scale': expected a finite number, got nan"),
    "text for a number": ({"scale": "0.5"}, "'scale': expected float, got str"),
    "a number for text": ({"stage": 1}, "'stage': expected str, got int"),
    "a fraction for an integer": ({"step": 0.5}, "'step': expected int, got float"),
    "a truth value for an integer": ({"step": True}, "'step': expected int, got bool"),
    "an integer for a truth value": ({"first": 1}, "'first': expected bool, got int"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_the_record_is_refused_by_field(case: str) -> None:
    changes, text = WRONG[case]
    payload = through_the_wire(sample(**changes).to_payload())
    with pytest.raises(RecordError, match=re.escape(text)):
        Uplink.from_payload(payload, {"D": 3, "K": 10})


def test_an_integer_is_a_float() -> None:
    assert Uplink.from_payload(sample(scale=2).to_payload(), {"D": 3}).scale == 2


def test_values_that_are_not_finite_are_refused_on_arrival_too() -> None:
    payload = sample(prototypes=np.array([[0, 0, 0], [0, np.inf, 0]])).to_payload()
    with pytest.raises(RecordError, match=re.escape("'prototypes': expected finite values, got inf at [1, 1]")):
        Uplink.from_payload(payload, {"D": 3})


@pytest.mark.parametrize(
    ("name", "tensor", "text"),
    [
        ("prototypes", Tensor("f64", np.zeros((2, 3))), "'prototypes': expected codec f32 or f16 or bf16, got f64"),
        ("counts", Tensor("i64", np.array([4, 5])), "'counts': expected codec u32, got i64"),
        ("classes", Tensor("u32", np.array([1, 7])), "'classes': expected codec u16, got u32"),
        ("extra", Tensor("u8", np.zeros(1, np.uint8)), "expected fields ["),
    ],
)
def test_another_codec_and_an_unknown_array_are_refused(name: str, tensor: Tensor, text: str) -> None:
    payload = sample().to_payload()
    with pytest.raises(RecordError, match=re.escape(text)):
        Uplink.from_payload(Payload({**payload.tensors, name: tensor}, payload.scalars))


def test_missing_fields_and_fields_of_the_other_kind_are_refused() -> None:
    payload = sample().to_payload()
    without = {name: tensor for name, tensor in payload.tensors.items() if name != "counts"}
    with pytest.raises(RecordError, match="expected fields"):
        Uplink.from_payload(Payload(without, payload.scalars))
    with pytest.raises(RecordError, match="'counts': expected an array, got a scalar"):
        Uplink.from_payload(Payload(without, {**payload.scalars, "counts": 3}))
    scalars = {name: value for name, value in payload.scalars.items() if name != "step"}
    step = Tensor("i64", np.array(3))
    with pytest.raises(RecordError, match="'step': expected a scalar, got an array"):
        Uplink.from_payload(Payload({**payload.tensors, "step": step}, scalars))


@pytest.mark.parametrize("dtype", ["f8", "i8", "f4", "u4", "u2", "u1"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_state_comes_back_bit_for_bit_in_its_own_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.full(shape, 0.1 if dtype[0] == "f" else 201, dtype)
    back = through_the_wire(Payload.of_state({"state": array})).arrays["state"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", ["f2", "i4", "?", "U1"])
def test_state_of_a_dtype_without_an_exact_codec_is_refused(dtype: str) -> None:
    with pytest.raises(RecordError, match="array 'state': expected one of"):
        Payload.of_state({"state": np.zeros(2, dtype)})
