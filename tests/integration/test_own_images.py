"""A device with a folder of images of its own, in real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.pairs_run import PairsRun
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

Image = pytest.importorskip("PIL.Image")

FIRST = client_id(0)


def paint(root: Path, name: str, value: int) -> None:
    """Write an image; the value is what tells it from others."""
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (4, 4), value).save(root / name)


def test_images_that_come_during_a_round_wait_for_the_next_even_if_the_client_is_killed(pairs: PairsRun) -> None:
    pairs.configure(data={"image_size": 4, "test_fraction": 0.0})
    root = pairs.folder / "images"
    paint(root, "a/1.png", 1)
    paint(root, "c/2.png", 2)
    (root / "b").mkdir()
    (root / "b/broken.jpg").write_bytes(b"no image")
    own = {"source": "folder", "root": str(root)}
    pairs.gates.shut("server-echoes")
    coordinator = pairs.serve()
    first, second = pairs.client(0, coordinator.address, data=own), pairs.client(1, coordinator.address)
    first.hear("images: 2 images to train on, 0 to test on; none of b\n")
    first.hear(r"1 of 3 entries in .*images cannot be used and are left out: .*b/broken.jpg: not an image\n")
    coordinator.hear(f"{FIRST} has 1 samples that it cannot use")

    pairs.gates.see("server-echoes")
    pairs.gates.shut(FIRST)
    paint(root, "b/3.png", 3)
    pairs.gates.open("server-echoes")
    pairs.gates.see(FIRST)
    first.hear("images: 3 images to train on, 0 to test on\n")
    first.kill()
    pairs.gates.shut(FIRST)
    paint(root, "b/4.png", 4)
    first = pairs.client(0, coordinator.address, data=own)
    first.hear("1 images that have come since the work began wait until it is over\n")
    pairs.gates.see(FIRST)
    pairs.gates.open(FIRST)

    assert coordinator.wait() == first.wait() == second.wait() == ExitCode.FINISHED
    assert coordinator.summary["updates"] == {"accepted": 8, "duplicate": 0, "stale": 0, "refused": 0}
    assert coordinator.summary["clients"][FIRST]["num_train"] == 3
    assert "goes on with other samples" not in first.said


def test_a_folder_that_is_gone_costs_its_client_its_samples_and_nothing_else(pairs: PairsRun) -> None:
    pairs.configure(data={"image_size": 4, "test_fraction": 0.0})
    root = pairs.folder / "images"
    pairs.gates.shut("server-echoes")
    coordinator = pairs.serve()
    own = {"source": "folder", "root": str(root)}
    first, second = pairs.client(0, coordinator.address, data=own), pairs.client(1, coordinator.address)
    first.hear("images: No such file or directory: there is nothing to train on until it is back\n")
    pairs.gates.see("server-echoes")
    pairs.gates.shut(FIRST)
    paint(root, "a/1.png", 1)
    pairs.gates.open("server-echoes")
    first.hear("images: 1 images to train on, 0 to test on; none of b, c\n")
    pairs.gates.see(FIRST)
    first.kill()
    pairs.gates.shut(FIRST)
    root.rename(pairs.folder / "unplugged")
    first = pairs.client(0, coordinator.address, data=own)
    first.hear("1 of 1 images that the work was begun with are gone and are left out: a/1.png\n")
    pairs.gates.see(FIRST)
    pairs.gates.open(FIRST)
    first.hear("round 2 goes on with other samples than it was begun with: expected those of digest ")
    assert coordinator.wait() == first.wait() == second.wait() == ExitCode.FINISHED
    assert coordinator.summary["updates"]["accepted"] == 8
