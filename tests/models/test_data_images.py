import os
from pathlib import Path

import msgspec
import numpy as np
import pytest

from models.data import dataset_classes, load_client_data, load_dataset
from models.datasets.pixels import read_image
from models.spec import ConfigError, DataConfig
from tests.models.small_run import make_spec

Image = pytest.importorskip("PIL.Image")


def paint(path: Path, value: int | tuple[int, ...] = 128, mode: str = "L", size: tuple[int, int] = (6, 4)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path)
    return path


def folder(root: Path, channels: int = 1, size: int = 4) -> DataConfig:
    return DataConfig(
        dataset="images",
        root=str(root),
        channels=channels,  # type: ignore[arg-type]
        image_size=size,
        partition="iid",
        num_clients=1,
        min_size=0,
        test_fraction=0,
    )


def pixels(path: Path, channels: int) -> list[list[float]]:
    """Return the colours of an image that stands alone in its class folder, as channels x pixels."""
    dataset = load_dataset(folder(path.parents[1], channels))
    part = dataset.take(np.arange(len(dataset.y)))
    assert part.notes == []
    assert part.x.shape == (1, channels, 4, 4)
    assert part.x.dtype == np.float32
    return [sorted(set(channel.ravel().tolist())) for channel in part.x[0]]


def test_classes_are_the_folders_in_order_of_their_names(tmp_path: Path) -> None:
    for name in ("dog", "cat", "eel"):
        (tmp_path / name).mkdir()
    paint(tmp_path / "dog/1.png")
    paint(tmp_path / "cat/deep/2.jpg")
    paint(tmp_path / "cat/1.jpg")
    config = folder(tmp_path)
    loaded = load_dataset(config)
    assert dataset_classes(config) == loaded.classes == ["cat", "dog", "eel"]
    assert loaded.y.tolist() == [0, 0, 1]
    assert (loaded.test_from, loaded.notes) == (None, [])


def test_train_and_test_folders_are_the_official_split(tmp_path: Path) -> None:
    for place in ("train/cat/1.png", "train/dog/1.png", "train/dog/2.png", "test/dog/1.png", "test/eel/1.png"):
        paint(tmp_path / place)
    loaded = load_dataset(folder(tmp_path))
    assert loaded.classes == ["cat", "dog", "eel"]
    assert loaded.y.tolist() == [0, 1, 1, 1, 2]
    assert (loaded.test_from, loaded.official) == (3, True)


def test_folders_map_through_the_label_map_by_name(tmp_path: Path) -> None:
    paint(tmp_path / "cat/1.png")
    paint(tmp_path / "ant/1.png")
    config = msgspec.structs.replace(folder(tmp_path), classes=["dog", "cat", "ant"])
    assert dataset_classes(config) == ["dog", "cat", "ant"]
    assert load_dataset(config).y.tolist() == [2, 1]
    with pytest.raises(ConfigError, match=r"ant: no class 'ant' in the label map; did you mean 'aunt'"):
        load_dataset(msgspec.structs.replace(config, classes=["aunt", "cat"]))


@pytest.mark.parametrize(
    ("mode", "value", "grey", "colour"),
    [
        ("L", 51, 0.2, (0.2, 0.2, 0.2)),
        ("1", 1, 1.0, (1, 1, 1)),
        ("RGB", (255, 0, 51), None, (1, 0, 0.2)),
        ("RGBA", (255, 0, 0, 0), None, (1, 0, 0)),
        ("LA", (51, 0), 0.2, (0.2, 0.2, 0.2)),
        ("P", 0, 0.0, (0, 0, 0)),
    ],
)
def test_all_kinds_of_images_become_one(
    tmp_path: Path, mode: str, value: int | tuple[int, ...], grey: float | None, colour: tuple[float, ...]
) -> None:
    path = paint(tmp_path / "a" / "1.png", value, mode)
    assert pixels(path, 3) == [[pytest.approx(channel)] for channel in colour]
    if grey is not None:
        assert pixels(path, 1) == [[pytest.approx(grey)]]


def test_a_cmyk_photo_is_read(tmp_path: Path) -> None:
    assert pixels(paint(tmp_path / "a/1.jpg", (0, 0, 0, 0), "CMYK"), 3) == [[1.0]] * 3


def test_a_transparent_palette_image_is_read_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 255, 0, 0])
    image.save(tmp_path / "a/1.png", transparency=bytes([255, 0]))
    assert pixels(tmp_path / "a/1.png", 3) == [[1.0], [0.0], [0.0]]


@pytest.mark.parametrize("channels", [1, 3])
def test_sixteen_bits_are_scaled_not_clipped(tmp_path: Path, channels: int) -> None:
    (tmp_path / "a").mkdir()
    values = np.tile(np.array([0, 40000, 65535, 100], np.uint16), (4, 1))
    Image.fromarray(values).save(tmp_path / "a/1.png")
    expected = [0.0, pytest.approx(100 / 65535), pytest.approx(40000 / 65535), 1.0]
    assert pixels(tmp_path / "a/1.png", channels) == [expected] * channels


def test_a_range_that_is_not_known_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.fromarray(np.full((4, 4), 3.5, np.float32)).save(tmp_path / "a/1.tif")
    Image.fromarray(np.full((4, 4), 70000, np.int32)).save(tmp_path / "a/2.tif")
    part = load_dataset(folder(tmp_path)).take(np.arange(2))
    assert part.x.shape == (0, 1, 4, 4)
    assert "2 of 2 samples cannot be read" in part.notes[0]
    assert "1.tif: expected 8 or 16 bits per channel, got mode F" in part.notes[0]
    assert "2.tif: expected 8 or 16 bits per channel, got mode I with values to 70000" in part.notes[0]


def test_junk_is_counted_named_and_left_out(tmp_path: Path) -> None:
    paint(tmp_path / "a/1.png")
    paint(tmp_path / "a/.ipynb_checkpoints/1.png")
    paint(tmp_path / ".hidden/1.png")
    for name in ("a/._1.png", "a/Thumbs.db", "a/notes.txt"):
        (tmp_path / name).write_bytes(b"junk")
    (tmp_path / "a/empty.jpg").touch()
    loaded = load_dataset(folder(tmp_path))
    assert len(loaded.y) == 1
    assert loaded.classes == ["a"]
    assert loaded.notes[0].startswith(f"5 of 6 entries in {tmp_path} are no images and are left out: ")
    assert "empty.jpg: empty" in loaded.notes[0]


def test_a_link_to_a_folder_is_told_as_its_images_are_left_out(tmp_path: Path) -> None:
    paint(tmp_path / "elsewhere/1.png")
    paint(tmp_path / "data/a/1.png")
    (tmp_path / "data/a/more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data/b").symlink_to(tmp_path / "elsewhere")
    loaded = load_dataset(folder(tmp_path / "data"))
    assert (loaded.classes, loaded.y.tolist()) == (["a", "b"], [0, 1])
    assert "a/more: a link to a folder, which is not followed" in loaded.notes[0]


def test_a_long_list_of_faults_is_cut_short_but_counted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for index in range(9):
        (tmp_path / f"a/{index}.txt").touch()
    assert load_dataset(folder(tmp_path)).notes[0].endswith("; and 4 more")


def test_broken_files_are_left_out_by_the_client_that_holds_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for index in range(4):
        path = paint(tmp_path / f"a/{index}.jpg", size=(64, 64))
        Image.fromarray(rng.integers(0, 255, (64, 64), np.uint8)).save(path)
    whole = (tmp_path / "a/1.jpg").read_bytes()
    (tmp_path / "a/1.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "a/2.jpg").write_bytes(b"<html>not found</html>")
    paint(tmp_path / "b/1.png")
    png = (tmp_path / "b/1.png").read_bytes()
    (tmp_path / "b/1.png").write_bytes(png[:20] + b"????" + png[24:])
    client = load_client_data(make_spec("any", num_classes=2, data=folder(tmp_path)), 0)
    assert client.train_y.tolist() == [0, 0]
    assert client.train_x.shape == (2, 1, 4, 4)
    assert client.notes[0].startswith("3 of 5 samples cannot be read and are left out: ")
    for said in ("2.jpg: not an image", "1.jpg: image file is truncated", "b/1.png: "):
        assert said in client.notes[0]


def test_an_empty_folder_is_an_empty_client_where_the_classes_are_known(tmp_path: Path) -> None:
    config = msgspec.structs.replace(folder(tmp_path, 3), classes=["cat", "dog"])
    client = load_client_data(make_spec("any", num_classes=2, data=config), 0)
    assert client.train_x.shape == (0, 3, 4, 4)
    assert client.classes == ["cat", "dog"]


def test_a_missing_or_empty_root_is_named_with_the_layout(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"no class in {tmp_path}; expected a folder for each class"):
        dataset_classes(folder(tmp_path))
    with pytest.raises(ConfigError, match=rf"no folder {tmp_path}/absent; expected a folder for each class"):
        load_dataset(folder(tmp_path / "absent"))


def test_a_photo_is_turned_upright(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    lying = np.tile(np.array([0, 0, 255, 255], np.uint8), (4, 1))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter, clockwise
    Image.fromarray(lying).save(tmp_path / "a/1.png", exif=exif)
    part = load_dataset(folder(tmp_path)).take(np.arange(1))
    assert part.x[0, 0].tolist() == np.rot90(lying / 255, -1).tolist()


def test_pixels_are_those_that_torchvision_gives(tmp_path: Path) -> None:
    folders, functional = (
        pytest.importorskip("torchvision.datasets"),
        pytest.importorskip("torchvision.transforms.functional"),
    )
    rng = np.random.default_rng(0)
    for name, shape in (("a/1.png", (9, 7, 3)), ("b/2.png", (4, 4)), ("b/3.jpg", (5, 5, 3))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 255, shape, np.uint8)).save(tmp_path / name)
    theirs = [functional.to_tensor(functional.resize(image, [4, 4], antialias=True)).numpy()
              for image, _ in folders.ImageFolder(tmp_path)]  # fmt: skip
    assert (load_dataset(folder(tmp_path, 3)).take(np.arange(3)).x == np.stack(theirs)).all()


def test_channels_are_normalised_as_the_run_says(tmp_path: Path) -> None:
    paint(tmp_path / "a/1.png", (255, 0, 51), "RGB")
    config = msgspec.structs.replace(folder(tmp_path, 3), mean=[0.5, 0.5, 0.2], std=[0.5, 0.25, 1.0])
    part = load_dataset(config).take(np.arange(1))
    assert part.x[0, :, 0, 0].tolist() == [1.0, -2.0, 0.0]
    with pytest.raises(ConfigError, match="mean and std: expected 3 numbers each, one for a channel, got 1 and 1"):
        load_dataset(msgspec.structs.replace(config, mean=[0.5], std=[1.0]))


@pytest.mark.timeout(10)
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ValueError, match="not a file"):
        read_image(tmp_path / "pipe.png", 1, 4)


def test_an_image_that_would_fill_the_memory_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (30, 20)).save(tmp_path / "large.png")
    monkeypatch.setattr("models.datasets.pixels.MAX_PIXELS", 599)
    with pytest.raises(ValueError, match="expected at most 599 pixels, got 30 x 20"):
        read_image(tmp_path / "large.png", 1, 4)
