"""Prototypes on a plane, and where they are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coordinator.report.prototype_map import PrototypeSet, of_arrays, of_file, of_frames, plane_of
from models import checkpoint
from wire.encoding import encode, pack
from wire.messages import NETWORK, Update
from wire.payload import Payload

CLASSES = np.array([0, 2], np.uint16)


def test_distances_along_the_first_directions_are_kept() -> None:
    common = PrototypeSet(np.array([[0.0, 0, 0], [4, 0, 0], [0, 0, 2]]), [0, 1, 2])
    plane = plane_of(common, {"ann": PrototypeSet(np.array([[0.0, 7, 0]]), [1])})
    assert plane is not None
    spots = {(spot.client, spot.label): np.array([spot.x, spot.y]) for spot in plane.spots}
    assert np.linalg.norm(spots["", 1] - spots["", 0]) == pytest.approx(4)
    assert np.linalg.norm(spots["", 2] - spots["", 0]) == pytest.approx(2)
    assert spots["ann", 1] == pytest.approx(spots["", 0])  # they differ across the plane only
    assert sum(plane.shares) == pytest.approx(1)


def test_the_signs_of_the_directions_do_not_depend_on_the_order() -> None:
    rows = np.random.default_rng(0).normal(size=(5, 8))
    one, other = (
        plane_of(PrototypeSet(rows, [0, 1, 2, 3, 4]), {}),
        plane_of(PrototypeSet(rows[::-1], [4, 3, 2, 1, 0]), {}),
    )
    assert one is not None
    assert other is not None
    for spot in one.spots:
        (same,) = [found for found in other.spots if found.label == spot.label]
        assert (same.x, same.y) == pytest.approx((spot.x, spot.y))


@pytest.mark.parametrize("rows", [np.ones((3, 4)), np.ones((2, 1))])
def test_prototypes_that_do_not_differ_are_drawn_on_one_spot(rows: np.ndarray) -> None:
    plane = plane_of(PrototypeSet(rows, list(range(len(rows)))), {})
    assert plane is not None
    assert {(spot.x, spot.y) for spot in plane.spots} == {(0.0, 0.0)}


def test_one_prototype_makes_no_plane_and_other_widths_are_left_out() -> None:
    assert plane_of(PrototypeSet(np.ones((1, 4)), [0]), {}) is None
    plane = plane_of(PrototypeSet(np.eye(2), [0, 1]), {"ann": PrototypeSet(np.ones((1, 3)), [0])})
    assert plane is not None
    assert len(plane.spots) == 2


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"prototypes": np.eye(2)},
        {"prototypes": np.ones(2), "classes": CLASSES},
        {"prototypes": np.eye(3), "classes": CLASSES},
        {"prototypes": np.full((2, 2), np.nan), "classes": CLASSES},
        {"prototypes": np.zeros((0, 2)), "classes": CLASSES[:0]},
    ],
)
def test_arrays_that_are_no_prototypes_are_none(arrays: dict[str, np.ndarray]) -> None:
    assert of_arrays(arrays) is None


def test_prototypes_are_found_in_files_and_frames(tmp_path: Path) -> None:
    arrays: dict[str, np.ndarray] = {"prototypes": np.eye(2, dtype=np.float32), "classes": CLASSES}
    checkpoint.write(tmp_path / "state", arrays)
    header, buffer = encode(Update(1, 1, 0, []), pack(Payload.of_state(arrays)))
    for found in (of_file(tmp_path / "state"), of_frames(bytes(header), bytes(buffer), NETWORK)):
        assert found is not None
        assert found.classes == [0, 2]
        assert found.prototypes_CD.tolist() == np.eye(2).tolist()
    assert of_file(tmp_path / "nowhere") is None
    assert of_frames(bytes(header), None, NETWORK) is None
    assert of_frames(b"junk", b"", NETWORK) is None
