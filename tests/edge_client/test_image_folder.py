"""A device's own images: what is read, what is left out, and what stays the same when others come."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from edge_client.image_folder import ImageFolder
from edge_client.local_state import SampleFile
from models.spec import ConfigError, DataConfig

Image = pytest.importorskip("PIL.Image")

CLASSES = ["cat", "dog", "eel"]


def paint(path: Path, value: int = 128) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (4, 4), value).save(path)
    return path


def opened(root: Path, unknown: str = "refuse", classes: list[str] = CLASSES, **settings: object) -> ImageFolder:
    config = DataConfig(**{"image_size": 4, "channels": 1, "test_fraction": 0.0, **settings})  # type: ignore[arg-type]
    return ImageFolder(str(root), classes, config, unknown)  # type: ignore[arg-type]


def test_classes_are_found_by_name_and_absent_ones_are_told_of(tmp_path: Path) -> None:
    paint(tmp_path / "eel/1.png", 51)
    (tmp_path / "cat").mkdir()
    data = opened(tmp_path).look()
    assert data.train_y.tolist() == [2]
    assert data.train_x.tolist() == [[[[pytest.approx(0.2)] * 4] * 4]]
    assert data.classes == CLASSES
    assert data.notes == [f"{tmp_path}: 1 images to train on, 0 to test on; none of cat, dog"]
    assert data.num_skipped == 0


def test_what_cannot_be_used_is_counted_and_named(tmp_path: Path) -> None:
    paint(tmp_path / "cat/1.png")
    paint(tmp_path / "cat/.ipynb_checkpoints/1.png")
    paint(tmp_path / ".hidden/1.png")
    paint(tmp_path / "lost.png")
    for name in ("cat/._1.png", "dog/Thumbs.db", "dog/broken.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"junk")
    (tmp_path / "dog/empty.jpg").touch()
    data = opened(tmp_path).look()
    assert (len(data.train_y), data.num_skipped) == (1, 7)
    assert data.notes[1].startswith(f"7 of 8 entries in {tmp_path} cannot be used and are left out: ")


def test_what_is_no_file_and_what_may_not_be_looked_into_is_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paint(tmp_path / "cat/1.png")
    os.symlink("nowhere", tmp_path / "cat/2.png")
    os.symlink("3.png", tmp_path / "cat/3.png")
    os.mkfifo(tmp_path / "cat/4.png")
    paint(tmp_path / "dog/1.png")
    real = os.scandir

    def refuse(path: str) -> object:  # root may look into anything
        if str(path) == str(tmp_path / "dog"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr("os.scandir", refuse)
    data = opened(tmp_path).look()
    assert (data.train_y.tolist(), data.num_skipped) == ([0], 4)
    for told in ("2.png: No such file", "3.png: Too many levels", "4.png: no file", "/dog: Permission denied"):
        assert told in data.notes[1]


def test_unknown_classes_are_refused_or_left_out_by_name(tmp_path: Path) -> None:
    paint(tmp_path / "cat/1.png")
    paint(tmp_path / "eeel/1.png")
    with pytest.raises(ConfigError, match=r"no class 'eeel' in the label map; did you mean 'eel'\?; \[data\] unknown"):
        opened(tmp_path).look()
    data = opened(tmp_path, "skip").look()
    assert (data.train_y.tolist(), data.num_skipped) == ([0], 1)
    assert "eeel/1.png: no class 'eeel' in the label map" in data.notes[1]


def test_a_class_that_turns_up_later_does_not_end_the_client(tmp_path: Path) -> None:
    paint(tmp_path / "cat/1.png")
    folder = opened(tmp_path)
    folder.look()
    paint(tmp_path / "gnu/1.png")
    assert folder.look().num_skipped == 1


def test_names_of_all_alphabets_and_none(tmp_path: Path) -> None:
    paint(tmp_path / "猫/写真.png")
    paint(tmp_path / unicodedata.normalize("NFD", "é") / "📷.png")
    bad = os.fsdecode(b"\xff\xfe.png")
    paint(tmp_path / "a.png").rename(tmp_path / "猫" / bad)
    (tmp_path / "猫" / os.fsdecode(b"\xff.txt")).touch()
    folder = opened(tmp_path, classes=["é", "猫"])
    data = folder.look()
    assert data.train_y.tolist() == [0, 1, 1]
    "".join(data.notes).encode()
    assert "猫/\\xff.txt: not an image by its name" in data.notes[1]
    assert {file.name for file in folder.files} == {"e\u0301/📷.png", "猫/写真.png", "猫/\\xff\\xfe.png"}


def test_nothing_there_is_no_error(tmp_path: Path) -> None:
    folder = opened(tmp_path / "usb")
    data = folder.look()
    assert (data.train_x.shape, data.test_x.shape) == ((0, 1, 4, 4), (0, 1, 4, 4))
    assert data.notes[-1].endswith("usb: No such file or directory: there is nothing to train on until it is back")
    paint(tmp_path / "usb/cat/1.png")
    assert len(folder.look().train_y) == 1


def test_a_folder_that_goes_and_comes_back_is_as_before(tmp_path: Path) -> None:
    paint(tmp_path / "usb/cat/1.png")
    folder = opened(tmp_path / "usb")
    before = folder.look()
    (tmp_path / "usb").rename(tmp_path / "drawer")
    assert len(folder.look().train_y) == 0
    (tmp_path / "drawer").rename(tmp_path / "usb")
    assert folder.look().train_x.tolist() == before.train_x.tolist()


def test_if_nothing_has_changed_the_samples_are_the_same_object(tmp_path: Path) -> None:
    paint(tmp_path / "cat/1.png")
    (tmp_path / "cat/broken.png").write_bytes(b"junk")
    folder = opened(tmp_path)
    first = folder.look()
    assert folder.look() is first
    paint(tmp_path / "dog/1.png")
    assert folder.look() is not first
    assert folder.look().train_y.tolist() == [0, 1]


def test_a_camera_that_gives_each_file_a_new_name_costs_no_memory(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    for number in range(5):
        image, junk = paint(tmp_path / f"cat/{number}.png", number), tmp_path / f"cat/cut-{number}.png"
        junk.write_bytes(b"junk %d" % number)
        assert len(folder.look().train_y) == 1
        image.unlink()
        junk.unlink()
    cache = folder._cache
    assert (len(cache._seen), len(cache._pixels), len(cache._faults)) == (2, 1, 1)


def test_an_image_that_was_half_copied_counts_once_it_is_whole(tmp_path: Path) -> None:
    content = paint(tmp_path / "whole.png").read_bytes()
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat/1.png").write_bytes(content[:40])
    folder = opened(tmp_path)
    assert len(folder.look().train_y) == 0
    (tmp_path / "cat/1.png").write_bytes(content)
    assert len(folder.look().train_y) == 1


def test_an_image_is_to_train_or_to_test_on_for_ever(tmp_path: Path) -> None:
    for value in range(0, 200, 2):
        paint(tmp_path / f"cat/{value}.png", value)
    folder = opened(tmp_path, test_fraction=0.25)
    before = folder.look()
    assert 10 <= len(before.test_y) <= 40
    for value in range(1, 200, 2):
        paint(tmp_path / f"cat/another-{value}.png", value)
    after = folder.look()
    assert len(after.train_y) + len(after.test_y) == 200

    def contents(x: np.ndarray) -> set[float]:
        return set(x[:, 0, 0, 0].tolist())

    assert contents(before.test_x) < contents(after.test_x)
    assert contents(before.train_x) < contents(after.train_x)


def test_a_copy_is_a_sample_too(tmp_path: Path) -> None:
    paint(tmp_path / "cat/1.png", 7)
    paint(tmp_path / "cat/2.png", 7)
    folder = opened(tmp_path)
    assert len(folder.look().train_y) == 2
    (tmp_path / "cat/2.png").unlink()
    assert len(folder.look().train_y) == 1


def test_a_round_that_is_repeated_has_the_images_it_was_begun_with(tmp_path: Path) -> None:
    for name, value in (("cat/1.png", 1), ("cat/2.png", 2), ("dog/3.png", 3)):
        paint(tmp_path / name, value)
    folder = opened(tmp_path)
    folder.look()
    begun_with = folder.files
    (tmp_path / "cat/1.png").rename(tmp_path / "cat/moved.png")
    (tmp_path / "cat/2.png").unlink()
    paint(tmp_path / "eel/4.png", 4)
    again = opened(tmp_path)
    data = again.look(begun_with)
    assert data.train_y.tolist() == [0, 1]
    assert data.notes[1:] == [
        "1 of 3 images that the work was begun with are gone and are left out: cat/2.png",
        "1 images that have come since the work began wait until it is over",
    ]
    assert again.look().train_y.tolist() == [0, 1, 2]


def test_samples_come_in_the_same_order_whatever_the_files_are_called(tmp_path: Path) -> None:
    for index, value in enumerate((9, 4, 6, 1)):
        paint(tmp_path / f"one/cat/{index}.png", value)
        paint(tmp_path / f"other/cat/{9 - index}.png", value)
    one, other = opened(tmp_path / "one").look(), opened(tmp_path / "other").look()
    assert one.train_x.tolist() == other.train_x.tolist()


def test_the_run_says_how_colours_are_normalised(tmp_path: Path) -> None:
    paint(tmp_path / "cat/1.png", 255)
    data = opened(tmp_path, channels=3, mean=[0.5, 0.0, 1.0], std=[0.5, 2.0, 1.0]).look()
    assert data.train_x[0, :, 0, 0].tolist() == [1.0, 0.5, 0.0]
    with pytest.raises(ConfigError, match="mean and std: expected 1 numbers each, one for a channel, got 3 and 3"):
        opened(tmp_path, mean=[0.5] * 3, std=[0.5] * 3)


def test_the_files_of_the_samples_say_class_and_content(tmp_path: Path) -> None:
    paint(tmp_path / "dog/deep/1.png")
    folder = opened(tmp_path)
    folder.look()
    ((name, digest, path),) = folder.files
    assert (name, len(digest), path) == ("dog", 64, "dog/deep/1.png")
    assert isinstance(folder.files[0], SampleFile)
