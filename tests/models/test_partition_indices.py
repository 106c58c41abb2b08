from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.data import load_client_data
from models.partition import Labels, drawn_indices, split
from models.spec import ConfigError, DataConfig
from tests.models.small_run import make_spec

SHARED = Path(__file__).parents[3] / "shared" / "data"

GOOD = {"client00_train": [0, 1], "client00_test": [2], "client01_train": [5], "client01_test": [9, 8]}


def read(folder: Path, arrays: dict[str, Any], labels: Labels | None = None) -> list[Any]:
    filled: dict[str, Any] = {name: np.array(rows, np.uint32 if len(rows) else None) for name, rows in arrays.items()}
    np.savez(folder / "split.npz", **filled)
    config = DataConfig(partition="indices", indices=str(folder / "split.npz"), num_clients=2)
    return split(labels or Labels(np.zeros(10, int)), config, 0)


def test_rows_are_as_the_file_says(tmp_path: Path) -> None:
    parts = read(tmp_path, GOOD)
    assert [(train.tolist(), test.tolist()) for train, test, _ in parts] == [([0, 1], [2]), ([5], [9, 8])]
    assert parts[0].train.dtype == np.int64


def test_a_client_may_have_no_rows(tmp_path: Path) -> None:
    assert [len(part.train) for part in read(tmp_path, {**GOOD, "client01_train": []})] == [2, 0]


@pytest.mark.parametrize("name", ["iid", "dirichlet", "pathological", "shard", "w-way-s-shot", "fedgen-dirichlet"])
def test_what_any_partition_drew_is_read_back(tmp_path: Path, name: str) -> None:
    labels = Labels(np.arange(3000) % 10, test_from=2500)
    drawn = drawn_indices(DataConfig(partition=name, num_clients=2), labels, 7)
    parts = read(tmp_path, drawn, labels)
    for index, (train, test, _) in enumerate(parts):
        assert train.tolist() == drawn[f"client{index:02d}_train"].tolist()
        assert test.tolist() == drawn[f"client{index:02d}_test"].tolist()


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"client00_test": [1]}, "row 1 stands in client00_train and client00_test"),
        ({"client01_test": [9, 0]}, "row 0 stands in client00_train and client01_test"),
        ({"client01_test": [9, 9]}, "row 9 stands in client01_test: expected each row once at most"),
        ({"client01_train": [10]}, r"client01_train has row 10, expected 0..9"),
        ({"client02_train": [3]}, "missing: none; not expected: client02_train"),
        ({"client01_train": [[3]]}, r"client01_train must be row numbers \[N\], got uint32 \[1, 1\]"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, changed: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=rf"split\.npz: .*{text}"):
        read(tmp_path, {**GOOD, **changed})


def test_a_missing_client_is_named(tmp_path: Path) -> None:
    arrays = {name: rows for name, rows in GOOD.items() if "01_t" not in name}
    with pytest.raises(ConfigError, match="num_clients = 2; missing: client01_test, client01_train"):
        read(tmp_path, arrays)


@pytest.mark.parametrize("rows", [[0.5], [-1.0]])
def test_what_is_no_row_number_is_refused(tmp_path: Path, rows: list[float]) -> None:
    path = tmp_path / "split.npz"
    np.savez(path, **{**GOOD, "client00_train": np.array(rows)})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="client00_train must be row numbers"):
        split(Labels(np.zeros(10, int)), DataConfig(partition="indices", indices=str(path), num_clients=2), 0)


def test_a_train_part_keeps_out_of_the_test_set_apart(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"client01_train has row 5, expected 0..4; .* \[data\] pool = 'all' spreads"):
        read(tmp_path, GOOD, Labels(np.zeros(10, int), test_from=5))
    assert len(read(tmp_path, GOOD, Labels(np.zeros(10, int), test_from=5, spreads_test=True))) == 2


def test_no_file_is_named_with_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"needs indices = the path of its \.npz file"):
        split(Labels(np.zeros(10, int)), DataConfig(partition="indices"), 0)
    with pytest.raises(ConfigError, match=r"no file .*absent\.npz; set \[data\] indices to a file of arrays"):
        split(Labels(np.zeros(10, int)), DataConfig(partition="indices", indices=str(tmp_path / "absent.npz")), 0)


def test_the_published_split_of_mnist_is_taken_as_it_is() -> None:
    images, rows = SHARED / "mnist.npz", SHARED / "mnist_dir0.1_20clients.npz"
    if not (images.is_file() and rows.is_file()):
        pytest.skip(f"needs mnist.npz and mnist_dir0.1_20clients.npz in {SHARED}")
    config = DataConfig(dataset="npz", root=str(images), partition="indices", indices=str(rows), num_clients=20)
    client = load_client_data(make_spec("any", data=config), 1)
    assert client.train_x.shape == (374, 1, 28, 28)
    assert client.test_x.shape == (125, 1, 28, 28)
    assert client.train_x.dtype == np.float32
    assert (client.train_x.min(), client.train_x.max()) == (0, 1)
