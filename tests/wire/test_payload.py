"""Payloads and records: what a method declares, what it costs, and what is refused before a method sees it."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from wire.encoding import decode, encode, pack, unpack
from wire.errors import EncodeError, RecordError
from wire.messages import Update
from wire.payload import (
    EMPTY,
    VALUE_DTYPES,
    Nothing,
    Payload,
    Record,
    Sizes,
    Tensor,
    class_ids,
    counts,
    digest_of,
    index_set,
    indices,
    positions_in,
    scalar,
    short_digest,
    values,
)


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


@pytest.mark.parametrize("value_dtype", VALUE_DTYPES)
def test_a_record_comes_back_through_the_wire(value_dtype: str) -> None:
    back = Uplink.from_payload(through_the_wire(sample().to_payload(value_dtype)), {"D": 3, "K": 10})
    assert np.allclose(back.prototypes, sample().prototypes, rtol=0, atol=1 / 255 if value_dtype == "i8" else 0)
    assert back.prototypes.dtype == np.float32
    assert back.counts.tolist() == [4, 5]
    assert back.classes.tolist() == [1, 7]
    assert (back.stage, back.scale, back.step, back.first) == ("tune", 0.5, 3, True)


@pytest.mark.parametrize(("value_dtype", "value_bytes"), [("f32", 24), ("f16", 12), ("bf16", 12), ("i8", 6 + 2 * 8)])
def test_predicted_sizes_are_those_of_the_payload_and_of_what_travels(value_dtype: str, value_bytes: int) -> None:
    payload = sample().to_payload(value_dtype)
    expected = Sizes(elements=6, payload_bytes=value_bytes + 2 * 4 + 2 * 2)
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
    with pytest.raises(RecordError, match="field 'prototypes', class 7: expected finite values, got inf"):
        Uplink.from_payload(payload, {"D": 3})
    with pytest.raises(RecordError, match="field 'prototypes', class 'owl': expected finite values, got inf"):
        Uplink.from_payload(payload, {"D": 3}, classes=[*"abcdefg", "owl"])


@pytest.mark.parametrize(
    ("name", "tensor", "text"),
    [
        (
            "prototypes",
            Tensor("f64", np.zeros((2, 3))),
            "'prototypes': expected codec f32 or f16 or bf16 or i8, got f64",
        ),
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


DIGEST = "5f2b91ac00ff" + 52 * "e"


@dataclass(frozen=True)
class Sparse(Record):
    positions: np.ndarray = indices("B", of="A")
    entries: np.ndarray = values("B")
    masks: str = digest_of("masks")


@dataclass(frozen=True)
class Whole(Record):
    kept: np.ndarray = indices("B", of="A")
    parameters: np.ndarray = values("A")


SPARSE = Sparse(np.array([3, 4, 11, 17, 30]), np.arange(5.0), short_digest(DIGEST))


def sparse_payload(**scalars: Any) -> Payload:
    payload = SPARSE.to_payload("f32", {"A": 40})
    return Payload(payload.tensors, {**payload.scalars, **scalars})


def test_positions_travel_as_an_index_set_and_come_back() -> None:
    payload = through_the_wire(sparse_payload())
    assert payload.tensors["positions"].codec == "u8"
    assert payload.arrays["positions"].tobytes().hex() == "280505c49a90"
    for back in (Sparse.from_payload(payload, {"A": 40}, {"masks": DIGEST}), Sparse.of_checked(payload)):
        assert back.positions.dtype == np.int64
        assert back.positions.tolist() == SPARSE.positions.tolist()
        assert back.entries.tolist() == SPARSE.entries.tolist()
        assert back.masks == "5f2b91ac00ff"


def test_positions_are_payload_bytes_and_no_elements() -> None:
    payload = sparse_payload()
    assert payload.sizes == pack(payload).sizes == Sizes(elements=5, payload_bytes=6 + 5 * 4)


@pytest.mark.parametrize("count", [0, 513, 2_565, 5_130])
def test_predicted_bytes_of_positions_are_their_entropy(count: int) -> None:
    members = np.sort(np.random.default_rng(0).choice(5_130, count, replace=False))
    sizes = Sparse(members, np.zeros(count), short_digest(DIGEST)).to_payload("f16", {"A": 5_130}).sizes
    predicted = Sparse.sizes({"A": 5_130, "B": count}, "f16")
    assert predicted.elements == sizes.elements == Sparse.elements({"B": count}) == count
    assert 0 <= sizes.payload_bytes - predicted.payload_bytes <= 0.03 * (predicted.payload_bytes - 2 * count) + 8


def test_another_array_may_bound_the_positions_wherever_it_stands() -> None:
    payload = Whole(np.array([0, 6]), np.zeros(7)).to_payload()
    assert Whole.from_payload(payload).kept.tolist() == [0, 6]
    with pytest.raises(EncodeError, match=r"field 'kept': index set: expected positions from 0 to 6, got 7"):
        Whole(np.array([0, 7]), np.zeros(7)).to_payload()


def test_the_fields_of_a_record_are_listed_once_for_all_that_come(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = sparse_payload()
    Sparse.from_payload(payload, {"A": 40}, {"masks": DIGEST})
    monkeypatch.setattr("wire.payload.dataclasses", None)
    Sparse.check_forms(payload.forms, payload.scalars, {"A": 40})
    assert Sparse.from_payload(payload, {"A": 40}, {"masks": DIGEST}).entries.tolist() == [0, 1, 2, 3, 4]


def test_forms_tell_the_sizes_and_are_refused_as_often_as_they_come() -> None:
    payload = sparse_payload()
    assert Sparse.check_forms(payload.forms, payload.scalars, {"A": 40}) == {"A": 40, "B": 5}
    wrong = [form._replace(shape=(5, 1)) for form in payload.forms]
    for _ in range(2):
        with pytest.raises(RecordError, match=r"field 'entries': expected 1 dimensions \('B',\), got shape \(5, 1\)"):
            Sparse.check_forms(wrong, payload.scalars, {"A": 40})
    with pytest.raises(RecordError, match=r"expected fields .*, got"):
        Sparse.check_forms(payload.forms, [*payload.scalars, "more"], {"A": 40})


def test_positions_without_a_bound_are_refused() -> None:
    for attempt in (SPARSE.to_payload, lambda: Sparse.from_payload(sparse_payload())):
        with pytest.raises(RecordError, match="field 'positions': the size of A is not known"):
            attempt()


WRONG_SPARSE: dict[str, tuple[Tensor, str]] = {
    "another universe": (
        Tensor("u8", index_set(SPARSE.positions, 41)),
        "expected one among 40 positions, got one among 41",
    ),
    "fewer values than positions": (Tensor("u8", index_set(np.arange(6), 40)), "expected B = 5, got 6"),
    "more values than positions": (Tensor("u8", index_set(np.arange(4), 40)), "expected B = 5, got 4"),
    "a shape": (Tensor("u8", np.zeros((2, 3), np.uint8)), "expected the bytes of an index set, got shape (2, 3)"),
    "no index set": (Tensor("u8", np.zeros(6, np.uint8)), "index set: "),
    "plain integers": (Tensor("u32", SPARSE.positions), "expected codec u8, got u32"),
}


@pytest.mark.parametrize("case", WRONG_SPARSE)
def test_what_is_no_index_set_of_the_record_is_refused_by_field(case: str) -> None:
    tensor, text = WRONG_SPARSE[case]
    payload = sparse_payload()
    with pytest.raises(RecordError, match="field 'positions': .*" + re.escape(text)):
        Sparse.from_payload(Payload({**payload.tensors, "positions": tensor}, payload.scalars), {"A": 40})


def test_what_was_made_with_another_constant_is_refused_by_name() -> None:
    other = 64 * "0"
    text = "field 'masks': expected the run's 'masks' with digest 000000000000, got 5f2b91ac00ff"
    with pytest.raises(RecordError, match=text):
        Sparse.from_payload(sparse_payload(), {"A": 40}, {"masks": other})
    for digests in (None, {}, {"public_data": other}, {"masks": DIGEST}):
        assert Sparse.from_payload(sparse_payload(), {"A": 40}, digests).masks == short_digest(DIGEST)


@pytest.mark.parametrize("digest", ["", "5f2b91ac00f", DIGEST, "5F2B91AC00FF", "5f2b91ac00fg", "5f2b91ac00ff\n"])
def test_a_text_that_is_no_short_digest_is_refused(digest: str) -> None:
    with pytest.raises(RecordError, match="field 'masks': expected 12 hexadecimal characters, got '"):
        Sparse.from_payload(sparse_payload(masks=digest), {"A": 40})


def test_a_digest_is_a_text() -> None:
    with pytest.raises(RecordError, match="field 'masks': expected str, got int 12"):
        Sparse.from_payload(sparse_payload(masks=12), {"A": 40})


def test_run_constants_hold_positions_as_arrays_of_bytes() -> None:
    array = index_set(SPARSE.positions, 40)
    back = through_the_wire(Payload.of_state({"masks": array})).arrays["masks"]
    assert positions_in(back, 40).tolist() == SPARSE.positions.tolist()
