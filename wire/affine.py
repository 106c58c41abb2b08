"""The codec `i8`: the entries of a row, the last dimension, as bytes between the row's smallest and largest value.

A row is its offset and scale, two singles, and one byte per entry: the entry is offset + scale * byte. The values are
first rounded to single precision, as `f32` does. The offset is the smallest value. The scale is the smallest single of
which 255 reach the largest value, so a byte is off by at most half a step. A row of equal values has scale 0 and comes
back exactly.
"""

from __future__ import annotations

import math

import numpy as np

from wire.errors import DecodeError, UnfitArrayError

_STEPS = 255
_HEAD_BYTES = 8
_SINGLE = np.dtype("<f4")


def encode_rows(name: str, singles: np.ndarray) -> np.ndarray:
    """Return the bytes of an array of finite singles, as uint8 [rows, 8 + entries of a row].

    Raises:
        UnfitArrayError: a row from end to end, or its last step, is more than a single holds.
    """
    num_rows, width = _rows_of(singles.shape)
    rows = singles.reshape(num_rows, width).astype(np.float64)
    offset, largest = (rows.min(1), rows.max(1)) if width else (np.zeros(num_rows), np.zeros(num_rows))
    scale = _scale(largest - offset)
    if not (held := _fits(offset, scale)).all():
        row = int(np.argmin(held))
        raise UnfitArrayError(f"array {name!r}: codec i8 cannot hold row {row}, from {offset[row]} to {largest[row]}")
    coded = np.empty((num_rows, _HEAD_BYTES + width), np.uint8)
    coded[:, :_HEAD_BYTES] = np.stack([offset, scale], axis=1).astype(_SINGLE).view(np.uint8)
    coded[:, _HEAD_BYTES:] = np.rint((rows - offset[:, None]) / np.where(scale > 0, scale, 1)[:, None])
    return coded


def decode_rows(shape: tuple[int, ...], content: bytes | memoryview) -> np.ndarray:
    """Return the float32 array of this shape that `content` holds; their lengths must agree.

    Raises:
        DecodeError: an offset or scale that is not finite, a negative scale, or steps beyond what a single holds.
    """
    num_rows, width = _rows_of(shape)
    coded = np.frombuffer(content, np.uint8).reshape(num_rows, _HEAD_BYTES + width)
    with np.errstate(invalid="ignore"):  # a signalling NaN, which is refused below
        heads = coded[:, :_HEAD_BYTES].copy().view(_SINGLE).astype(np.float64)
    offset, scale = heads[:, :1], heads[:, 1:]
    if not (held := _fits(offset, scale)).all():
        row = int(np.argmin(held))
        raise DecodeError(f"i8: no row {row} has offset {offset[row, 0]} and scale {scale[row, 0]}")
    values = np.where(scale > 0, offset + scale * coded[:, _HEAD_BYTES:], offset)
    return values.astype(np.float32).reshape(shape)


def _rows_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return how many rows an array has, and the entries of each; a single entry is a row."""
    return math.prod(shape[:-1]), math.prod(shape[-1:])


def _scale(spans: np.ndarray) -> np.ndarray:
    """Return the smallest singles of which 255 are at least these spans."""
    with np.errstate(over="ignore", under="ignore"):
        nearest = (spans / _STEPS).astype(np.float32)
        scale = np.where(nearest * np.float64(_STEPS) < spans, np.nextafter(nearest, np.float32(np.inf)), nearest)
    return scale.astype(np.float64)


def _fits(offset: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Say for each row whether offset, steps and their sums are singles."""
    with np.errstate(over="ignore", invalid="ignore"):
        span, end = _STEPS * scale, offset + _STEPS * scale
        singles = np.stack([offset, span, end]).astype(_SINGLE)
    held: np.ndarray = (scale >= 0) & np.isfinite(singles).all(axis=0)
    return held
