import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from models.data import dataset_classes, load_client_data, load_dataset
from models.datasets.idx import read_idx
from models.spec import ConfigError, DataConfig, EvaluationConfig
from tests.models.small_run import make_spec

NUM_TRAIN, NUM_TEST = 40, 20


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_mnist(folder: Path, zipped: bool = False) -> None:
    """Write the four files; each image is filled with its own row number."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = np.arange(NUM_TRAIN + NUM_TEST)
    for part, chosen in (("train", rows[:NUM_TRAIN]), ("t10k", rows[NUM_TRAIN:])):
        images = np.broadcast_to(chosen[:, None, None], (len(chosen), 28, 28))
        for name, array in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", chosen % 10)):
            content = idx(array)
            path = folder / f"{part}-{name}{'.gz' if zipped else ''}"
            path.write_bytes(gzip.compress(content, mtime=0) if zipped else content)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(("name", "place"), [("mnist", "."), ("mnist", "MNIST/raw"), ("fashion-mnist", ".")])
def test_train_and_test_set_are_read_end_to_end(tmp_path: Path, name: str, place: str, zipped: bool) -> None:
    write_mnist(tmp_path / place, zipped)
    config = DataConfig(dataset=name, root=str(tmp_path))
    loaded = load_dataset(config)
    assert isinstance(loaded.x, np.ndarray)
    assert loaded.x.dtype == np.uint8
    assert loaded.x.shape == (NUM_TRAIN + NUM_TEST, 1, 28, 28)
    assert loaded.x[:, 0, 0, 0].tolist() == list(range(NUM_TRAIN + NUM_TEST))
    assert loaded.y.tolist() == [row % 10 for row in range(NUM_TRAIN + NUM_TEST)]
    assert loaded.test_from == NUM_TRAIN
    assert loaded.classes == dataset_classes(config)
    assert len(loaded.classes) == 10


def taken(tmp_path: Path, pool: str, test: str) -> tuple[list[int], list[int]]:
    """Return the rows that two clients train on, and those that the first one tests on."""
    config = DataConfig(dataset="mnist", root=str(tmp_path), pool=pool, partition="iid", num_clients=2)  # type: ignore[arg-type]
    spec = make_spec("any", data=config, evaluation=EvaluationConfig(test=test))  # type: ignore[arg-type]
    clients = [load_client_data(spec, index) for index in range(2)]
    train = np.concatenate([client.train_x for client in clients])
    return [sorted((x[:, 0, 0, 0] * 255).round().astype(int).tolist()) for x in (train, clients[0].test_x)]  # type: ignore[return-value]


def test_the_official_test_set_is_spread_too_unless_it_is_kept_apart(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    spread, own_test = taken(tmp_path, "all", "own")
    assert (len(spread), len(own_test)) == (46, 7)
    assert max(spread) >= NUM_TRAIN
    kept, own_test = taken(tmp_path, "train", "own")
    assert (len(kept), len(own_test)) == (30, 5)
    assert max(kept + own_test) < NUM_TRAIN


def test_the_global_test_set_is_the_official_one_if_nobody_trains_on_it(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    assert taken(tmp_path, "train", "global")[1] == list(range(NUM_TRAIN, NUM_TRAIN + NUM_TEST))
    train, test = taken(tmp_path, "all", "global")
    assert len(test) == 14
    assert not set(train) & set(test)


def test_a_missing_set_names_the_folder_the_files_and_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.datasets.idx._USUAL_PLACES", {"mnist": (), "fashion-mnist": ()})
    for name, source in (("mnist", "download = true"), ("fashion-mnist", "Debian package dataset-fashion-mnist")):
        with pytest.raises(ConfigError, match=rf"looked in {tmp_path} and found no train-images-idx3-ubyte.*{source}"):
            load_dataset(DataConfig(dataset=name, root=str(tmp_path)))


def test_only_the_missing_files_are_named(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(ConfigError, match=r"found no t10k-labels-idx1-ubyte \(nor"):
        load_dataset(DataConfig(dataset="mnist", root=str(tmp_path)))


GOOD = idx(np.zeros((3, 2, 2)))
PACKED = gzip.compress(GOOD, mtime=0)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "header of 16 bytes, the file has 0"),
        (GOOD[:10], "header of 16 bytes, the file has 10"),
        (b"\x89PNG" + GOOD[4:], "magic number 0x00000803 of an IDX file, got 0x89504e47"),
        (idx(np.zeros(28)), "magic number 0x00000803 of an IDX file, got 0x00000801"),
        (GOOD[:-1], r"announces \[3, 2, 2\], 28 bytes in all; the file has 27"),
        (GOOD + b"0", "28 bytes in all; the file has 29"),
        (struct.pack(">4I", 0x803, *[2**32 - 1] * 3), r"announces \[4294967295,"),
    ],
)
def test_a_broken_file_is_refused_by_its_path(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"{path}: .*{text}"):
        read_idx(path, 3)
    (tmp_path / "images.gz").write_bytes(gzip.compress(content, mtime=0))
    with pytest.raises(ConfigError, match=text):
        read_idx(tmp_path / "images.gz", 3)


@pytest.mark.parametrize("content", [GOOD, PACKED[:-9], PACKED[:-1], b"\x1f\x8b\x08\0broken"])
def test_a_broken_archive_is_refused_by_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"{path}: expected a readable IDX file"):
        read_idx(path, 3)


def test_images_and_labels_must_be_as_many(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(7)))
    with pytest.raises(ConfigError, match="as many images as labels, got 40 and 7"):
        load_dataset(DataConfig(dataset="mnist", root=str(tmp_path)))


def test_images_of_another_size_are_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx(np.zeros((40, 8, 8))))
    with pytest.raises(ConfigError, match=r"images of 28 x 28, got \[8, 8\]"):
        load_dataset(DataConfig(dataset="mnist", root=str(tmp_path)))


def test_a_label_outside_the_map_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx(np.full(40, 10)))
    with pytest.raises(ConfigError, match=r"row 0 has label 10, expected an id of the label map 0..9"):
        load_dataset(DataConfig(dataset="mnist", root=str(tmp_path)))
