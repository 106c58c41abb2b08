"""Data sets that live elsewhere: `package.module:factory`, and those of installed packages."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from models import registry
from models.data import Dataset, dataset_classes, load_client_data, load_dataset
from models.spec import ConfigError, DataConfig
from tests.models.small_run import make_spec


def weather(config: DataConfig) -> Dataset:
    x = np.linspace(0, 1, 120).reshape(40, 3)
    return Dataset(x, (x.sum(axis=1) > 1).astype(int), ["dry", "wet"])


def raising(config: DataConfig) -> Dataset:
    raise RuntimeError("the sensor is off")


def returning_arrays(config: DataConfig) -> Any:
    return np.zeros((3, 2)), np.zeros(3)


def with_lists(config: DataConfig) -> Dataset:
    return Dataset([[1.0]], [0], ["a"])  # type: ignore[arg-type]


def with_a_short_y(config: DataConfig) -> Dataset:
    return Dataset(np.zeros((3, 2)), np.zeros(2, int), ["a"])


def with_a_strange_label(config: DataConfig) -> Dataset:
    return Dataset(np.zeros((3, 2)), np.array([0, 1, 5]), ["a", "b"])


def with_one_name_twice(config: DataConfig) -> Dataset:
    return Dataset(np.zeros((3, 2)), np.array([0, 1, 1]), ["a", "a"])


def without_names(config: DataConfig) -> Dataset:
    return Dataset(np.zeros((3, 2)), np.array([0, 1, 1]), [])


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `own_data` be this module, whatever name the test run gave it."""
    import sys

    monkeypatch.setitem(sys.modules, "own_data", sys.modules[__name__])


def test_a_factory_makes_a_data_set_of_a_run() -> None:
    config = DataConfig(dataset="own_data:weather", num_clients=2, min_size=1)
    assert dataset_classes(config) == ["dry", "wet"]
    client = load_client_data(make_spec("any", num_classes=2, data=config), 1)
    assert client.classes == ["dry", "wet"]
    assert client.train_x.dtype == np.float32


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("raising", "failed: RuntimeError: the sensor is off"),
        ("returning_arrays", "expected a models.data.Dataset, got tuple"),
        ("with_lists", "x and y must be arrays, got list and list"),
        ("with_a_short_y", "equally many rows, got 3 and 2"),
        ("with_a_strange_label", r"row 2 has label 5, expected an id of the label map 0..1 \['a', 'b'\]"),
        ("with_one_name_twice", "each class needs a name of its own"),
        ("without_names", "classes must be a list of names, got"),
    ],
)
def test_a_factory_that_fails_is_named(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"own_data:{name}'.*{text}"):
        load_dataset(DataConfig(dataset=f"own_data:{name}"))


@pytest.mark.parametrize("name", ["own_data:absent", "no_such_module:weather"])
def test_a_factory_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"dataset '{name}' cannot be imported"):
        load_dataset(DataConfig(dataset=name))


def test_an_installed_package_brings_data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(kind: str) -> Mapping[str, str]:
        return {"weather": "own_data:weather"} if kind == "dataset" else {}

    monkeypatch.setattr(registry, "installed", installed)
    assert load_dataset(DataConfig(dataset="weather")).classes == ["dry", "wet"]
