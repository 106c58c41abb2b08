"""Dense codecs: how one array becomes bytes, and bytes become an array again.

The wire is little-endian and in C order, whatever the byte order and strides of the input. `f64` and `i64` carry state
bit for bit. The value codecs `f32`, `f16` and `bf16` round to the nearest representable value, ties to even, and refuse
what they cannot hold: NaN, infinity, and a finite value that would become infinite. `i8` does the same and then rounds
each row to 256 levels (`wire.affine`). The integer codecs take integers of any width and refuse one that is out of
range.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from wire.affine import decode_rows, encode_rows
from wire.errors import DecodeError, EncodeError, UnfitArrayError
from wire.payload import Tensor, array_bytes

Buffer = bytes | memoryview
"""Bytes that travel: `len` is their number."""


class Codec(NamedTuple):
    """One row of the codec table: the number in the header, the dtype on the wire, the input kinds that it takes."""

    number: int
    dtype: np.dtype
    kinds: str


CODECS = {
    "f64": Codec(1, np.dtype("<f8"), "f"),
    "i64": Codec(2, np.dtype("<i8"), "iu"),
    "f32": Codec(3, np.dtype("<f4"), "fiu"),
    "u32": Codec(4, np.dtype("<u4"), "iu"),
    "f16": Codec(5, np.dtype("<f2"), "fiu"),
    "bf16": Codec(6, np.dtype("<u2"), "fiu"),
    "u16": Codec(7, np.dtype("<u2"), "iu"),
    "u8": Codec(8, np.dtype("<u1"), "iu"),
    "i8": Codec(9, np.dtype("<u1"), "fiu"),
}
"""The dense codecs by name; numbers are never used again for another codec."""

CODEC_NAMES = {codec.number: name for name, codec in CODECS.items()}
"""The names by the number that travels."""


def encode_tensor(name: str, tensor: Tensor) -> memoryview:
    """Return the bytes of an array, without a copy where it already lies as the codec wants it.

    Raises:
        UnfitArrayError: the codec cannot hold the array; the text names array, codec, and the first bad value's index.
    """
    codec, array = CODECS.get(tensor.codec), tensor.data
    if codec is None:
        raise EncodeError(f"array {name!r}: expected one of the codecs {', '.join(CODECS)}, got {tensor.codec!r}")
    if array.dtype.kind not in codec.kinds or (tensor.codec == "f64" and array.dtype.itemsize > 8):
        raise UnfitArrayError(f"array {name!r}: codec {tensor.codec} does not take dtype {array.dtype}")
    if tensor.codec == "f64":
        coded = array
    elif codec.kinds == "iu":
        coded = _checked_integers(name, tensor, _limits(codec.dtype))
    elif tensor.codec == "i8":
        coded = encode_rows(name, _rounded_values(name, tensor, "f32"))
    else:
        coded = _rounded_values(name, tensor, tensor.codec)
    return np.ascontiguousarray(coded, codec.dtype).reshape(-1).view(np.uint8).data


def decode_tensor(codec: str, shape: tuple[int, ...], content: Buffer) -> np.ndarray:
    """Return the array that `content` holds: read-only, aligned, in native byte order, without a copy where possible.

    `f16`, `bf16` and `i8` come back as float32, the others in the dtype of their name.

    Raises:
        DecodeError: an unknown codec, a shape that does not fit the bytes, or an `i8` row that is none.
    """
    if codec not in CODECS:
        raise DecodeError(f"expected one of the codecs {', '.join(CODECS)}, got {codec!r}")
    if min(shape, default=0) < 0:
        raise DecodeError(f"no array has the shape {shape}")
    if (expected := array_bytes(codec, shape)) != len(content):
        raise DecodeError(f"{codec} array of shape {shape}: expected {expected} bytes, got {len(content)}")
    try:
        array = _native(codec, shape, content)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise DecodeError(f"no {codec} array of shape {shape} in {len(content)} bytes: {error}") from None
    array.flags.writeable = False
    return array


def _native(codec: str, shape: tuple[int, ...], content: Buffer) -> np.ndarray:
    if codec == "i8":
        return decode_rows(shape, content)
    coded: np.ndarray = np.ndarray(shape, CODECS[codec].dtype, content)
    if codec == "bf16":
        return _widened(coded)
    if codec == "f16":
        with np.errstate(invalid="ignore"):
            return coded.astype(np.float32)
    if not coded.flags.aligned:
        coded = coded.copy()
    return coded if coded.dtype.isnative else coded.astype(coded.dtype.newbyteorder("="))


class Limits(NamedTuple):
    """The smallest and the largest number of a type of integers."""

    min: int
    max: int


@functools.cache
def _limits(dtype: np.dtype) -> Limits:
    info = np.iinfo(dtype)
    return Limits(int(info.min), int(info.max))


def _checked_integers(name: str, tensor: Tensor, limits: Limits) -> np.ndarray:
    array = tensor.data
    own = _limits(array.dtype)
    if own.min < limits.min or own.max > limits.max:
        _refuse_unless(_in_range(array, limits), name, tensor)
    return array


def _in_range(array: np.ndarray, limits: Limits) -> np.ndarray:
    """Compare with only those limits that the array's own dtype can pass, so that no comparison overflows."""
    own = _limits(array.dtype)
    held = np.ones(array.shape, bool)
    if own.min < limits.min:
        held &= array >= limits.min
    if own.max > limits.max:
        held &= array <= limits.max
    return held


def _rounded_values(name: str, tensor: Tensor, codec: str) -> np.ndarray:
    if codec != "bf16" and tensor.data.dtype == CODECS[codec].dtype:
        _refuse_unless(np.isfinite(tensor.data), name, tensor)
        return tensor.data
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if codec != "bf16":
            coded = tensor.data.astype(CODECS[codec].dtype, copy=False)
            _refuse_unless(np.isfinite(coded), name, tensor)
            return coded
        single = tensor.data.astype(np.float32, copy=False)
    coded = _narrowed(single)
    _refuse_unless(np.isfinite(single) & np.isfinite(_widened(coded)), name, tensor)
    return coded


def _narrowed(single: np.ndarray) -> np.ndarray:
    """Round float32 to the upper half of its bits, ties to even; meaningful for finite values only."""
    bits = np.array(single, order="C").view(np.uint32)
    bits += np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    bits >>= np.uint32(16)
    return bits.astype(np.uint16)


def _widened(coded: np.ndarray) -> np.ndarray:
    bits = coded.astype(np.uint32)
    bits <<= np.uint32(16)
    return bits.view(np.float32)


def _refuse_unless(held: np.ndarray, name: str, tensor: Tensor) -> None:
    if not held.all():
        where = [int(index) for index in np.argwhere(~held)[0]]
        value = tensor.data[tuple(where)]
        raise UnfitArrayError(f"array {name!r}: codec {tensor.codec} cannot hold {value} at {where}")
