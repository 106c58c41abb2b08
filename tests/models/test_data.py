from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from models.data import (
    DATASETS,
    ClientParts,
    check_normalization,
    dataset_classes,
    load_client_data,
    load_dataset,
    scaled,
)
from models.spec import ConfigError, DataConfig, EvaluationConfig
from tests.models.small_run import make_spec

Y = np.zeros(8, np.int64)


def npz(folder: Path, **arrays: Any) -> DataConfig:
    np.savez(folder / "data.npz", **arrays)
    return DataConfig(dataset="npz", root=str(folder), partition="iid", num_clients=2, min_size=1)


def images(num: int = 8, *shape: int) -> np.ndarray:
    return np.arange(num * 4, dtype=np.uint8).reshape(num, *(shape or (2, 2)))


def test_digits_are_grey_images_between_0_and_1() -> None:
    pytest.importorskip("sklearn")
    digits = load_dataset(DataConfig())
    assert isinstance(digits.x, np.ndarray)
    assert digits.x.shape == (1797, 1, 8, 8)
    assert digits.x.dtype == np.float32
    assert (digits.x.min(), digits.x.max()) == (0, 1)
    assert digits.classes == dataset_classes(DataConfig()) == list("0123456789")
    assert np.bincount(digits.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


@pytest.mark.parametrize(("dtype", "full"), [(np.uint8, 255), (np.uint16, 65535)])
def test_images_get_a_channel_axis_and_are_scaled_when_taken(tmp_path: Path, dtype: type, full: int) -> None:
    loaded = load_dataset(npz(tmp_path, x=np.full((3, 2, 2), full, dtype), y=[0, 1, 0]))
    assert isinstance(loaded.x, np.ndarray)
    assert loaded.x.dtype == dtype
    part = loaded.take(np.array([2, 1]))
    assert part.x.dtype == np.float32
    assert (part.x.shape, part.y.tolist()) == ((2, 1, 2, 2), [0, 1])
    assert (part.x == 1).all()


def test_features_stay_as_they_are(tmp_path: Path) -> None:
    loaded = load_dataset(npz(tmp_path, x=np.array([[5, 250]], np.uint8), y=[0]))
    part = loaded.take(np.array([0]))
    assert part.x.dtype == np.float32
    assert part.x.tolist() == [[5, 250]]


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64])
def test_token_ids_reach_a_client_as_whole_numbers(tmp_path: Path, dtype: type) -> None:
    config = msgspec.structs.replace(npz(tmp_path, x=np.arange(24, dtype=dtype).reshape(8, 3), y=Y), tokens=True)
    client = load_client_data(make_spec("any", num_classes=1, data=config), 0)
    assert client.train_x.dtype == np.int64
    assert sorted(np.concatenate([client.train_x, client.test_x])[:, 0] % 3) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (np.zeros((8, 3)), r"whole numbers \[N, length\], got float64 \[8, 3\]"),
        (np.zeros((8, 3, 2), int), r"whole numbers \[N, length\], got int64 \[8, 3, 2\]"),
        (np.array([[0, 1]] * 5 + [[3, -1]] * 3), "row 5 of x has a negative token id"),
    ],
)
def test_what_is_no_token_id_is_refused(tmp_path: Path, x: np.ndarray, text: str) -> None:
    config = msgspec.structs.replace(npz(tmp_path, x=x, y=np.zeros(8, int)), tokens=True)
    with pytest.raises(ConfigError, match=text):
        load_dataset(config)


def test_the_root_may_be_the_file_itself(tmp_path: Path) -> None:
    npz(tmp_path, x=images(), y=np.zeros(8, int))
    assert len(load_dataset(DataConfig(dataset="npz", root=str(tmp_path / "data.npz"))).y) == 8


def test_classes_come_from_the_config_or_from_the_labels(tmp_path: Path) -> None:
    config = npz(tmp_path, x=images(), y=[0, 2, 1, 0, 0, 0, 0, 0])
    assert dataset_classes(config) == ["0", "1", "2"]
    assert dataset_classes(DataConfig(dataset="npz", root="/nowhere", classes=["cat", "dog"])) == ["cat", "dog"]


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ([1, 2, 3, 1, 1, 1, 1, 1], "labels 1, 2, 3, none is 0"),
        ([0, 3, 7, 41, 0, 0, 0, 0], "labels 0, 3, 7, 41, none is 1"),
        ([0, 1, 255, 0, 0, 0, 0, 0], "labels 0, 1, 255, none is 2"),
        ([0, -100, 0, 0, 0, 0, 0, 0], "row 1 has label -100"),
        ([0, np.inf, 0, 0, 0, 0, 0, 0], "row 1 has label inf"),
        (np.array([0, 2**63] * 4, np.uint64), "row 1 has label 9223372036854775808"),
    ],
)
def test_labels_with_gaps_are_refused_unless_the_classes_are_named(tmp_path: Path, labels: Any, text: str) -> None:
    config = npz(tmp_path, x=images(), y=labels)
    for read in (load_dataset, dataset_classes):
        with pytest.raises(ConfigError, match=rf"^{tmp_path / 'data.npz'}: y.*{text}"):
            read(config)


def test_labels_beyond_the_names_of_the_file_are_refused(tmp_path: Path) -> None:
    config = npz(tmp_path, x=images(), y=[0, 2, 0, 0, 0, 0, 0, 0], classes=["a", "b"])
    with pytest.raises(ConfigError, match=r"row 1 has label 2, expected an id of the label map 0..1"):
        dataset_classes(config)


def test_a_named_class_may_have_no_samples(tmp_path: Path) -> None:
    config = npz(tmp_path, x=images(), y=[0, 2, 0, 0, 0, 0, 0, 0])
    assert len(load_dataset(msgspec.structs.replace(config, classes=["a", "b", "c"])).y) == 8


def test_a_missing_file_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file .*data\.npz; .*numpy\.savez"):
        load_dataset(DataConfig(dataset="npz", root=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"no file .*absent\.npz"):
        dataset_classes(DataConfig(dataset="npz", root=str(tmp_path / "absent.npz")))


def test_an_unknown_data_set_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown dataset 'digit'; did you mean 'digits'"):
        load_dataset(DataConfig(dataset="digit"))


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"x": images()}, "expected arrays x, y, got x"),
        ({"x": images(), "y": Y[:7]}, "equally many rows, got 8 and 7"),
        ({"x": images(), "y": [0, 0, 0, -1, 0, 0, 0, 0]}, "row 3 has label -1, expected an id of the label map 0..1"),
        ({"x": images(), "y": [0, 0, 2, 0, 0, 0, 0, 0]}, r"row 2 has label 2, expected .* 0..1 \['cat', 'dog'\]"),
        ({"x": images(), "y": [0, 0.5, 0, 0, 0, 0, 0, 0]}, "row 1 has label 0.5"),
        ({"x": images(), "y": [np.nan, 0, 0, 0, 0, 0, 0, 0]}, "row 0 has label nan"),
        ({"x": images(), "y": ["cat"] * 8}, "y must be whole numbers"),
        ({"x": images(), "y": Y[:, None]}, "y must be whole numbers"),
        ({"x": images(), "y": np.int64(1)}, r"y must be whole numbers \[N\], got int64 \[\]"),
        ({"x": images(), "y": [np.inf] * 8}, "row 0 has label inf"),
        ({"x": np.float64(3), "y": Y}, r"x must be numbers \[N, features\], .*got float64 \[\]"),
        ({"x": np.full((8, 1), 1e300), "y": Y}, "x must be finite, row 0 is not as float32"),
        ({"x": np.zeros(8), "y": Y}, r"x must be numbers \[N, features\], .*got float64 \[8\]"),
        ({"x": np.zeros((8, 1, 1, 1, 1)), "y": Y}, "x must be numbers"),
        ({"x": np.zeros((8, 0)), "y": Y}, "x must be numbers"),
        ({"x": np.array([["a"]] * 8), "y": Y}, "x must be numbers"),
        ({"x": np.array([[0.0]] * 5 + [[np.nan]] + [[np.inf]] * 2), "y": Y}, "finite, row 5 is not"),
        ({"x": images(), "y": Y, "test_from": 8}, r"test_from must be a row number in 1..7, got 8"),
        ({"x": images(), "y": Y, "test_from": 0}, "test_from must be"),
        ({"x": images(), "y": Y, "test_from": 2.5}, "test_from must be"),
        ({"x": images(), "y": Y, "test_from": [2, 3]}, "test_from must be"),
        ({"x": np.array([None] * 8), "y": Y}, "expected a numpy .npz file of plain arrays: x holds Python objects"),
        ({}, "expected arrays x, y, got none"),
    ],
)
def test_bad_arrays_are_refused_in_words(tmp_path: Path, arrays: dict[str, Any], text: str) -> None:
    config = npz(tmp_path, **arrays)
    with pytest.raises(ConfigError, match=rf"^{tmp_path / 'data.npz'}: .*{text}"):
        load_dataset(DataConfig(dataset="npz", root=config.root, classes=["cat", "dog"]))


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 torn"])
def test_a_broken_file_is_refused_by_its_path(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(ConfigError, match=r"data\.npz: expected a numpy") as refused:
        load_dataset(DataConfig(dataset="npz", root=str(tmp_path)))
    assert "pickle" not in str(refused.value)


def test_a_lone_array_is_not_a_data_set(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", images())
    with pytest.raises(ConfigError, match=r"x\.npy: expected a numpy"):
        load_dataset(DataConfig(dataset="npz", root=str(tmp_path / "x.npy")))


def test_rows_behind_test_from_belong_to_no_client(tmp_path: Path) -> None:
    config = npz(tmp_path, x=np.arange(40.0).reshape(40, 1), y=np.zeros(40, int), test_from=30)
    own = make_spec("any", num_classes=1, data=config)
    shared = make_spec("any", num_classes=1, data=config, evaluation=EvaluationConfig(test="global"))
    for index in range(2):
        client = load_client_data(own, index)
        assert max(client.train_x.max(), client.test_x.max()) < 30
        assert sorted(load_client_data(shared, index).test_x[:, 0].tolist()) == list(range(30, 40))


def test_without_test_from_the_global_test_set_is_all_test_parts(tmp_path: Path) -> None:
    config = npz(tmp_path, x=np.arange(40.0).reshape(40, 1), y=np.zeros(40, int))
    own = make_spec("any", num_classes=1, data=config)
    shared = make_spec("any", num_classes=1, data=config, evaluation=EvaluationConfig(test="global"))
    parts = [load_client_data(own, index).test_x[:, 0].tolist() for index in range(2)]
    assert load_client_data(shared, 1).test_x[:, 0].tolist() == parts[0] + parts[1]


def test_the_global_test_set_is_held_once_however_many_clients_there_are() -> None:
    parts = ClientParts(make_spec("any", num_classes=10, evaluation=EvaluationConfig(test="global")))
    assert parts.client(0).test_x is parts.client(1).test_x


def test_there_is_no_client_beyond_the_last() -> None:
    with pytest.raises(ConfigError, match="num_clients = 4: there is no client of index 4"):
        load_client_data(make_spec("any"), 4)


def test_the_part_of_each_client_is_the_same_however_it_is_loaded() -> None:
    pytest.importorskip("sklearn")
    spec = make_spec("any", data=DataConfig(num_clients=2))
    parts = ClientParts(spec)
    for index in range(2):
        alone, together = load_client_data(spec, index), parts.client(index)
        assert (alone.train_x == together.train_x).all()
        assert (alone.test_y == together.test_y).all()


def test_a_run_has_its_name_for_each_data_set() -> None:
    assert {"digits", "mnist", "fashion-mnist", "images", "npz", "CIFAR10"} <= set(DATASETS)


def test_arrays_of_images_are_normalised_and_others_cannot_be() -> None:
    images = np.array([0, 255], np.uint8).reshape(2, 1, 1, 1)
    assert scaled(images, [0.5], [0.25]).ravel().tolist() == [-2.0, 2.0]
    config = DataConfig(mean=[0.5], std=[1.0])
    check_normalization(config, (1, 8, 8), "here:")
    with pytest.raises(ConfigError, match=r"here: \[data\] mean and std: these samples have none, got 1 and 1"):
        check_normalization(config, (16,), "here:")


def test_classes_of_one_name_are_refused_before_anything_is_loaded() -> None:
    with pytest.raises(ConfigError, match=r"\[data\] classes: each class needs a name of its own, got \['a', 'a'\]"):
        dataset_classes(DataConfig(classes=["a", "a"]))
