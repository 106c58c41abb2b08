"""The codec `i8`: layout, error, what comes back exactly, and what is refused on both sides."""

import contextlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wire.errors import DecodeError, EncodeError
from wire.payload import Payload, Tensor, array_bytes
from wire.tensors import decode_tensor, encode_tensor

LARGEST = float(np.finfo(np.float32).max)
SMALLEST = 2.0**-149
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)
SINGLES = st.floats(-(2.0**126), 2.0**126, width=32)


def round_trip(array: np.ndarray) -> np.ndarray:
    return decode_tensor("i8", array.shape, encode_tensor("a", Tensor("i8", array)))


def content_of(offset: float, scale: float, *levels: int) -> bytes:
    return np.array([offset, scale], "<f4").tobytes() + bytes(levels)


@given(hnp.arrays(np.float32, SHAPES, elements=SINGLES))
def test_an_entry_is_off_by_at_most_half_a_step(array: np.ndarray) -> None:
    back = round_trip(array)
    assert back.shape == array.shape
    assert back.dtype == np.float32
    if array.size:
        exact = array.astype(np.float64)
        step = np.ptp(exact, axis=-1, keepdims=True) / 255 if array.ndim else 0.0
        rounding = np.spacing(np.abs(array)) / 2
        assert (np.abs(back - exact) <= (step + SMALLEST) * (0.5 + 2**-16) + rounding).all()


@given(hnp.arrays(np.float32, (2, 7), elements=SINGLES))
def test_the_smallest_value_of_a_row_comes_back_exactly(array: np.ndarray) -> None:
    assert (round_trip(array).min(axis=1) == array.min(axis=1)).all()


@pytest.mark.parametrize("value", [0.0, -0.0, 0.1, -LARGEST, LARGEST, SMALLEST])
def test_flat_and_zero_rows_come_back_bit_for_bit(value: float) -> None:
    array = np.full((2, 5), value, np.float32)
    assert round_trip(array).tobytes() == array.tobytes()


def test_a_row_of_the_smallest_steps_comes_back_exactly() -> None:
    array = SMALLEST * np.arange(256, dtype=np.float64)
    assert (round_trip(array) == array).all()


def test_rows_do_not_share_their_range() -> None:
    array = np.array([[0.0, 1e-6, 2e-6], [0.0, 1e6, 2e6]])
    assert np.allclose(round_trip(array), array, rtol=0.005)


@pytest.mark.parametrize(
    ("shape", "size_bytes"), [((), 9), ((0,), 8), ((3,), 11), ((0, 3), 0), ((3, 0), 24), ((2, 3, 4), 72)]
)
def test_bytes_are_those_of_entries_and_rows(shape: tuple[int, ...], size_bytes: int) -> None:
    tensor = Tensor("i8", np.ones(shape))
    assert len(encode_tensor("a", tensor)) == array_bytes("i8", shape) == size_bytes
    assert Payload({"a": tensor}).sizes == (int(np.prod(shape)), size_bytes)
    assert round_trip(tensor.data).tobytes() == np.ones(shape, np.float32).tobytes()


def test_the_layout_is_offset_scale_and_levels_row_by_row() -> None:
    content = bytes(encode_tensor("a", Tensor("i8", np.array([[-1.0, 254.0, 0.4], [3.0, 3.0, 3.0]]))))
    assert content == content_of(-1, 1, 0, 255, 1) + content_of(3, 0, 0, 0, 0)


@pytest.mark.parametrize("row", [[-LARGEST, LARGEST], [-LARGEST, 0.1 * LARGEST]])
def test_a_row_that_is_longer_than_any_single_is_refused_by_name(row: list[float]) -> None:
    text = f"array 'prototypes': codec i8 cannot hold row 1, from {row[0]} to {row[1]}"
    with pytest.raises(EncodeError, match=re.escape(text)):
        encode_tensor("prototypes", Tensor("i8", np.array([[0.0, 1.0], row])))


@pytest.mark.parametrize(
    ("offset", "scale"),
    [(np.nan, 1), (np.inf, 0), (0, np.nan), (0, np.inf), (0, -1), (0, LARGEST), (LARGEST, 1e36), (-LARGEST, 1.5e36)],
)
def test_a_row_that_no_sender_makes_is_refused(offset: float, scale: float) -> None:
    with pytest.raises(DecodeError, match=r"i8: no row 1 has offset \S+ and scale \S+"):
        decode_tensor("i8", (2, 1), content_of(1, 1, 7) + content_of(offset, scale, 0))


@given(st.binary(max_size=40), st.sampled_from([(), (3,), (2, 4), (4, 0), (2, 2, 1)]), st.booleans())
def test_any_bytes_are_finite_values_or_refused(content: bytes, shape: tuple[int, ...], fitting: bool) -> None:
    if fitting:
        content = content.ljust(array_bytes("i8", shape), b"\x3f")[: array_bytes("i8", shape)]
    with contextlib.suppress(DecodeError):
        assert np.isfinite(decode_tensor("i8", shape, content)).all()
