"""What is told of settings that nothing of a run goes by, and of a method that costs more than it need."""

import sys
from pathlib import Path

import pytest

from coordinator.config import load
from coordinator.notes import run_notes, unused_keys
from models.partition import PARTITION_KEYS, PARTITIONS
from models.spec import DataConfig


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("model.weights=/x", "[model] weights = '/x': not used by cnn"),
        ("data.root=/x", "[data] root = '/x': not used by digits"),
        ("data.download=true", "[data] download = True: not used by digits"),
        ("data.dataset=mnist data.download=true", "[data] download = True: not used by mnist"),
        ("data.partition=iid data.alpha=0.1", "[data] alpha = 0.1: not used by partition = 'iid'"),
        ("data.classes_per_client=3", "[data] classes_per_client = 3: not used by partition = 'dirichlet'"),
        ("training.optimizer=adam training.momentum=0.5", "[training] momentum = 0.5: not used by optimizer = 'adam'"),
        ("training.local_steps=7 training.local_epochs=3", "[training] local_epochs = 3: not used by local_steps = 7"),
        ("privacy.delta=1e-6", "[privacy] delta = 1e-06: not used by noise_multiplier = 0"),
    ],
)
def test_a_setting_that_nothing_goes_by_is_told(settings: str, told: str) -> None:
    assert unused_keys(load(None, settings.split())) == [told]


@pytest.mark.parametrize(
    "settings",
    [
        "",
        "model.name=own.net:Net model.weights=/x",
        "data.dataset=CIFAR10 data.download=true",
        "data.dataset=own.data:load data.download=true",
        "data.partition=own.parts:split data.alpha=0.1 data.ways=5",
        "data.partition=fedgen-dirichlet data.alpha=0.1 data.ratio=0.25",
        "training.optimizer=adam training.local_steps=7",
    ],
)
def test_what_is_used_or_may_be_is_not(settings: str) -> None:
    assert unused_keys(load(None, settings.split())) == []


def test_every_partition_says_which_keys_are_its_own() -> None:
    assert PARTITION_KEYS.keys() == PARTITIONS.keys()
    assert {key for keys in PARTITION_KEYS.values() for key in keys} <= set(DataConfig.__struct_fields__)


@pytest.mark.parametrize("brings", [True, False])
def test_a_method_that_brings_torch_into_the_coordinator_is_told(
    brings: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"own_method_{brings}".lower()
    brought = "sys.modules['torch'] = sys\n" if brings else ""
    (tmp_path / f"{name}.py").write_text(f"import sys\n{brought}from tests.models.faulty_method import METHOD\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", sys)
    monkeypatch.delitem(sys.modules, "torch")
    config = load(None, [f"method.name={name}:METHOD"])
    spec = config.spec("", ["a", "b"])
    told, noted = f"method '{name}:METHOD' imports torch in the coordinator, ", run_notes(config, spec)
    assert [line.startswith(told) for line in noted] == [True, False][not brings :]
    assert len(run_notes(config, spec, needs_torch=True)) == 1, "and what the method says itself"
