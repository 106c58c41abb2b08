"""Prototypes on a plane: the two directions in which the global ones differ most, and the local ones in the same.

A state or an update has prototypes if two of its arrays are called `prototypes`, [C, D], and `classes`, [C].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from models.checkpoint import read
from wire.encoding import decode, unpack
from wire.errors import DecodeError
from wire.limits import PIPE_BYTES
from wire.messages import Message

MAX_CLIENTS = 50
"""The prototypes of more clients than this would cover each other."""


class PrototypeSet(NamedTuple):
    """Prototypes and the classes that they stand for."""

    prototypes_CD: np.ndarray
    classes: list[int]


class Spot(NamedTuple):
    """One prototype on the plane; `client` is empty for a global one."""

    x: float
    y: float
    label: int
    client: str


class Plane(NamedTuple):
    """All prototypes on a plane, and how much of the global ones' variance each of its directions has."""

    spots: Sequence[Spot]
    shares: tuple[float, float]


def of_arrays(arrays: Mapping[str, np.ndarray]) -> PrototypeSet | None:
    """Return the prototypes among a state's or an update's arrays, None if there are none that can be drawn."""
    prototypes_CD, classes = arrays.get("prototypes"), arrays.get("classes")
    if prototypes_CD is None or classes is None or prototypes_CD.ndim != 2 or classes.shape != prototypes_CD.shape[:1]:
        return None
    if not prototypes_CD.size or not np.isfinite(prototypes_CD).all():
        return None
    return PrototypeSet(prototypes_CD.astype(np.float64), [int(label) for label in classes])


def of_file(path: Path) -> PrototypeSet | None:
    """Return the prototypes of a state file, None if it is not there or has none.

    Raises:
        CheckpointError: the file is damaged.
    """
    return of_arrays(read(path)[0]) if path.exists() else None


def of_frames(
    header: bytes, buffer: bytes | bytearray | memoryview | None, kinds: Mapping[int, type[Message]]
) -> PrototypeSet | None:
    """Return the prototypes of a stored state or update, None if it has none or its buffer lies elsewhere."""
    if buffer is None:
        return None
    try:
        _, packed = decode([header, memoryview(buffer)], kinds, PIPE_BYTES)
        return of_arrays(unpack(packed).arrays) if packed is not None else None
    except DecodeError:
        return None


def plane_of(common: PrototypeSet, local: Mapping[str, PrototypeSet]) -> Plane | None:
    """Project prototypes on the first two principal directions of the global ones, None if those are fewer than 2."""
    if len(common.classes) < 2:
        return None
    center_D = common.prototypes_CD.mean(axis=0)
    _, spreads, directions_CD = np.linalg.svd(common.prototypes_CD - center_D, full_matrices=False)
    axes_2D = _two(directions_CD)
    squares = np.append(np.square(spreads), 0.0)
    total = float(squares.sum()) or 1.0
    spots = [*_spots(common, "", center_D, axes_2D)]
    for client, prototypes in sorted(local.items())[:MAX_CLIENTS]:
        if prototypes.prototypes_CD.shape[1] == len(center_D):
            spots += _spots(prototypes, client, center_D, axes_2D)
    return Plane(spots, (float(squares[0]) / total, float(squares[1]) / total))


def _two(directions_CD: np.ndarray) -> np.ndarray:
    """Return the first two directions, [2, D], each turned so that its largest entry is positive."""
    axes_2D = np.zeros((2, directions_CD.shape[1]))
    for axis_D, direction_D in zip(axes_2D, directions_CD, strict=False):
        axis_D[:] = direction_D * (np.sign(direction_D[np.abs(direction_D).argmax()]) or 1.0)
    return axes_2D


def _spots(found: PrototypeSet, client: str, center_D: np.ndarray, axes_2D: np.ndarray) -> list[Spot]:
    points_C2 = (found.prototypes_CD - center_D) @ axes_2D.T
    return [Spot(float(x), float(y), label, client) for (x, y), label in zip(points_C2, found.classes, strict=True)]
