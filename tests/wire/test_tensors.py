"""The dense codecs: layout, rounding, refusals, and every shape and stride."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wire.errors import DecodeError, EncodeError
from wire.payload import CODEC_BYTES, Tensor, array_bytes
from wire.tensors import CODEC_NAMES, CODECS, decode_tensor, encode_tensor

VALUE_CODECS = ("f32", "f16", "bf16")
ROUNDING_CODECS = (*VALUE_CODECS, "i8")
INTEGER_DTYPES = {"i64": np.int64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8}
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


def round_trip(codec: str, array: np.ndarray) -> np.ndarray:
    return decode_tensor(codec, array.shape, encode_tensor("a", Tensor(codec, array)))


def bits_of(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()


@st.composite
def laid_out(draw: st.DrawFn, dtype: np.dtype) -> np.ndarray:
    """Draw an array of `dtype` in either byte order, then slice, reverse or transpose it."""
    stored = dtype.newbyteorder(draw(st.sampled_from("<>")))
    elements = hnp.from_dtype(dtype, allow_nan=False, allow_infinity=False)
    array: np.ndarray = draw(hnp.arrays(stored, draw(SHAPES), elements=elements))
    if array.ndim and draw(st.booleans()):
        array = array[:: draw(st.sampled_from([-2, -1, 2]))]
    return array.T if draw(st.booleans()) else array


@given(st.data(), st.sampled_from(sorted(INTEGER_DTYPES)))
def test_integers_of_any_shape_byte_order_and_stride_round_trip(data: st.DataObject, codec: str) -> None:
    array = data.draw(laid_out(np.dtype(INTEGER_DTYPES[codec])))
    back = round_trip(codec, array)
    assert back.dtype == INTEGER_DTYPES[codec]
    assert back.shape == array.shape
    assert np.array_equal(back, array)


@given(st.data(), st.sampled_from(["f32", "f64"]))
def test_floats_of_any_shape_byte_order_and_stride_round_trip_bit_for_bit(data: st.DataObject, codec: str) -> None:
    dtype = np.dtype(np.float32 if codec == "f32" else np.float64)
    array = data.draw(laid_out(dtype))
    back = round_trip(codec, array)
    assert back.dtype == dtype
    assert back.shape == array.shape
    assert bits_of(back) == bits_of(array.astype(dtype))


@given(st.data())
def test_f16_values_of_any_shape_round_trip_bit_for_bit(data: st.DataObject) -> None:
    array = data.draw(laid_out(np.dtype(np.float16)))
    back = round_trip("f16", array)
    assert back.dtype == np.float32
    assert back.shape == array.shape
    assert bits_of(back.astype(np.float16)) == bits_of(array.astype(np.float16))


@given(st.data())
def test_bf16_is_the_nearest_and_on_a_tie_the_even_neighbour(data: st.DataObject) -> None:
    array = data.draw(laid_out(np.dtype(np.float32))).astype(np.float32)
    array = np.clip(array, -3e38, 3e38)
    back = round_trip("bf16", array)
    assert back.dtype == np.float32
    assert back.shape == array.shape
    lower = (np.array(array, order="C").view(np.uint32) & np.uint32(0xFFFF0000)).astype(np.uint32)
    upper = (lower + np.uint32(0x10000)).astype(np.uint32)
    down, up = (np.asarray(bits).view(np.float32).astype(np.float64) for bits in (lower, upper))
    middle = (down + up) / 2
    odd = (lower >> np.uint32(16)) & np.uint32(1)
    goes_up = (np.abs(array) > np.abs(middle)) | ((array == middle) & (odd == 1))
    assert np.array_equal(back, np.where(goes_up, up, down))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, 1.0),
        (1.00390625, 1.0),  # 1 + 2^-8: a tie, 1.0 is even
        (1.01171875, 1.015625),  # 1 + 3 * 2^-8: a tie, 1 + 2^-6 is even
        (1.0039063692092896, 1.0078125),  # one step above the first tie
        (-1.00390625, -1.0),
    ],
)
def test_bf16_ties(value: float, expected: float) -> None:
    assert round_trip("bf16", np.array(value)) == np.float32(expected)


@given(st.sampled_from(sorted(CODECS)), SHAPES)
def test_bytes_are_as_many_as_the_table_says(codec: str, shape: tuple[int, ...]) -> None:
    dtype = np.uint8 if codec in INTEGER_DTYPES else np.float32
    rows = int(np.prod(shape[:-1])) if codec == "i8" else 0
    expected = int(np.prod(shape)) * CODEC_BYTES[codec] + 8 * rows
    assert len(encode_tensor("a", Tensor(codec, np.zeros(shape, dtype)))) == array_bytes(codec, shape) == expected


def test_the_two_codec_tables_agree() -> None:
    assert {name: codec.dtype.itemsize for name, codec in CODECS.items()} == CODEC_BYTES
    assert len(CODEC_NAMES) == len(CODECS)


@pytest.mark.parametrize(
    ("codec", "value", "content"),
    [
        ("f64", 1.0, "000000000000f03f"),
        ("i64", -2, "feffffffffffffff"),
        ("f32", 1.0, "0000803f"),
        ("u32", 258, "02010000"),
        ("f16", 1.0, "003c"),
        ("bf16", 1.0, "803f"),
        ("u16", 258, "0201"),
        ("u8", 255, "ff"),
        ("i8", 1.0, "0000803f" + "00000000" + "00"),
    ],
)
@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_the_wire_is_little_endian(codec: str, value: float, content: str, byte_order: str) -> None:
    array = np.array([value], f"{byte_order}f8" if isinstance(value, float) else f"{byte_order}i8")
    assert bytes(encode_tensor("a", Tensor(codec, array))).hex() == content


def test_a_fitting_array_is_not_copied_in_either_direction() -> None:
    array = np.arange(12, dtype="<f4").reshape(3, 4)
    content = encode_tensor("a", Tensor("f32", array))
    back = decode_tensor("f32", (3, 4), content)
    assert np.shares_memory(np.frombuffer(content, np.uint8), array)
    assert np.shares_memory(back, array)


@pytest.mark.parametrize("codec", sorted(CODECS))
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_decoded_arrays_are_read_only_and_aligned_even_from_odd_places(codec: str, shape: tuple[int, ...]) -> None:
    size = array_bytes(codec, shape)
    back = decode_tensor(codec, shape, memoryview(bytearray(size + 1))[1:])
    assert back.flags.aligned
    assert not back.flags.writeable
    assert back.dtype.isnative
    assert back.shape == shape


NAN_BITS = np.array([0x7FF0000000000001, 0xFFF8DEADBEEF0000, 0x7FF0000000000000, 0x8000000000000001], np.uint64)


def test_f64_carries_nan_payloads_infinities_and_denormals_bit_for_bit() -> None:
    assert bits_of(round_trip("f64", NAN_BITS.view(np.float64))) == NAN_BITS.tobytes()


@pytest.mark.parametrize("codec", ROUNDING_CODECS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, ">f4"])
def test_value_codecs_refuse_what_is_not_finite(codec: str, value: float, dtype: str) -> None:
    array = np.zeros((2, 3), dtype)
    array[1, 2] = value
    text = f"array 'prototypes': codec {codec} cannot hold {value} at [1, 2]"
    with pytest.raises(EncodeError, match=re.escape(text)):
        encode_tensor("prototypes", Tensor(codec, array))


@pytest.mark.parametrize(
    ("codec", "value", "largest"),
    [
        ("f16", 1e5, 65504.0),
        ("f16", -65520.0, 65519.0),
        ("bf16", 3.4e38, 3.38e38),
        ("f32", 1e39, 3.4e38),
        ("i8", 1e39, 3.4e38),
    ],
)
def test_value_codecs_refuse_an_overflow_and_name_it(codec: str, value: float, largest: float) -> None:
    with pytest.raises(EncodeError, match=re.escape(f"codec {codec} cannot hold {value} at [1]")):
        encode_tensor("a", Tensor(codec, np.array([largest, value])))
    assert np.isfinite(round_trip(codec, np.array([largest]))).all()


@pytest.mark.parametrize("codec", VALUE_CODECS)
def test_flat_zero_and_denormal_rows_survive(codec: str) -> None:
    smallest = {"f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}[codec]
    rows = np.array([[0.25] * 4, [0.0] * 4, [-0.0] * 4, [smallest, -smallest, 3 * smallest, 0.0]], np.float32)
    assert bits_of(round_trip(codec, rows)) == bits_of(rows)


@pytest.mark.parametrize("codec", ROUNDING_CODECS)
def test_a_scalar_array_is_refused_with_an_empty_index(codec: str) -> None:
    with pytest.raises(EncodeError, match=r"cannot hold nan at \[\]"):
        encode_tensor("a", Tensor(codec, np.array(np.nan)))


@pytest.mark.parametrize(
    ("codec", "array", "value"),
    [
        ("u8", np.array([0, 256]), 256),
        ("u16", np.array([0, -1]), -1),
        ("u16", np.array([0, 65536], ">u4"), 65536),
        ("u32", np.array([0, 2**32], np.uint64), 2**32),
        ("u32", np.array([0, -5], np.int8), -5),
        ("i64", np.array([0, 2**63], np.uint64), 2**63),
    ],
)
def test_integer_codecs_refuse_what_is_out_of_range(codec: str, array: np.ndarray, value: int) -> None:
    with pytest.raises(EncodeError, match=re.escape(f"array 'counts': codec {codec} cannot hold {value} at [1]")):
        encode_tensor("counts", Tensor(codec, array))


@pytest.mark.parametrize("codec", ["i64", "u32", "u16", "u8"])
@pytest.mark.parametrize("array", [np.array([1.0]), np.array([True]), np.array(["1"]), np.array([1], object)])
def test_integer_codecs_take_integers_only(codec: str, array: np.ndarray) -> None:
    with pytest.raises(EncodeError, match=f"array 'ids': codec {codec} does not take dtype"):
        encode_tensor("ids", Tensor(codec, array))


@pytest.mark.parametrize("codec", ["f64", *ROUNDING_CODECS])
@pytest.mark.parametrize("array", [np.array([1j]), np.array([True]), np.array(["1"]), np.array([1.0], object)])
def test_float_codecs_take_real_numbers_only(codec: str, array: np.ndarray) -> None:
    with pytest.raises(EncodeError, match=f"array 'values': codec {codec} does not take dtype"):
        encode_tensor("values", Tensor(codec, array))


@pytest.mark.parametrize("array", [np.array([1]), np.array([1], np.longdouble)])
def test_f64_refuses_what_it_might_round(array: np.ndarray) -> None:
    with pytest.raises(EncodeError, match="codec f64 does not take dtype"):
        encode_tensor("state", Tensor("f64", array))


def test_an_unknown_codec_is_refused_in_both_directions() -> None:
    with pytest.raises(EncodeError, match=r"array 'a': expected one of the codecs f64, .* got 'f8'"):
        encode_tensor("a", Tensor("f8", np.zeros(1)))
    with pytest.raises(DecodeError, match="got 'f8'"):
        decode_tensor("f8", (1,), bytes(8))


@pytest.mark.parametrize("shape", [(1,), (3,), (-1,), (2, -1), (0,), (2**62, 2**62), (0, 2**62, 2**62)])
@pytest.mark.parametrize("codec", ["f32", "i8"])
def test_a_shape_that_does_not_fit_the_bytes_is_refused(codec: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(DecodeError):
        decode_tensor(codec, shape, bytes(10 if codec == "i8" else 8))
