"""Parts that are not ours: those that an installed package registers, and a data set of texts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from coordinator import cli
from models.registry import installed
from tests.integration.simulated import settings, simulated_here

PARTS = """
import dataclasses

import numpy as np

from models.data import Dataset
from models.methods.local_only import METHODS
from models.nets.mlp import Mlp

METHOD = dataclasses.replace(METHODS[0], name="hermit", summary="from another package")


class Wide(Mlp):
    pass


def blobs(config):
    y = np.arange(120) % 3
    return Dataset((np.eye(3)[y] + 0.1).astype(np.float32), y, classes=["red", "green", "blue"])
"""

ENTRY_POINTS = """
[protoedge.methods]
hermit = tiny_parts:METHOD

[protoedge.nets]
wide-mlp = tiny_parts:Wide

[protoedge.datasets]
blobs = tiny_parts:blobs
"""

OWN = ("method.name=hermit", "model.name=wide-mlp", "data.dataset=blobs", "data.partition=iid")


@pytest.fixture
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a distribution as pip would: a module, and a folder that tells of it."""
    packages = tmp_path / "packages"
    about = packages / "tiny_parts-0.1.dist-info"
    about.mkdir(parents=True)
    (packages / "tiny_parts.py").write_text(PARTS)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-parts\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(packages)
    installed.cache_clear()
    yield
    installed.cache_clear()
    sys.modules.pop("tiny_parts", None)


@pytest.mark.usefixtures("_installed")
def test_the_parts_of_an_installed_package_run_by_their_names(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    summary = simulated_here(tmp_path / "run", settings(*OWN, "training.local_epochs=20"))
    assert (summary["method"], summary["rounds_completed"]) == ("hermit", 2)
    assert summary["accuracy"]["last"] > 0.9


@pytest.mark.usefixtures("_installed")
def test_they_are_listed_and_accepted_in_a_config(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["methods"]) == 0
    assert "from another package" in capsys.readouterr().out
    assert cli.main(["check-config", *settings(*OWN)]) == 0
    checked = capsys.readouterr().out
    assert all(f'"{setting.partition("=")[2]}"' in checked for setting in OWN)


def test_without_the_package_its_names_are_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    for setting in OWN[:3]:
        assert cli.main(["check-config", *settings(setting)]) == 2
        assert setting.partition("=")[2] in capsys.readouterr().err


def test_texts_train_like_anything_else(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    save_texts(tmp_path / "texts.npz")
    text = settings(
        "data.dataset=npz",
        f"data.root={tmp_path / 'texts.npz'}",
        "data.tokens=true",
        "data.partition=iid",
        "model.name=fasttext",
        "model.vocab_size=64",
        "training.lr=0.5",
        "training.local_epochs=3",
    )
    summary = simulated_here(tmp_path / "run", text)
    accuracies = {rule: about["last"] for rule, about in summary["accuracy_by_rule"].items()}
    assert min(accuracies.values()) > 0.8, accuracies
    assert summary["uplink"]["elements"] == 2 * 2 * 4 * 16, "rounds, clients, classes, feature dimension"


def save_texts(path: Path) -> None:
    """Write texts of 3 to 12 tokens, most of them from their class's own ten, the others from anywhere."""
    draw = np.random.default_rng(0)
    y = np.arange(400) % 4
    own = draw.integers(1, 11, (400, 12)) + 10 * y[:, None]
    x = np.where(draw.random((400, 12)) < 0.8, own, draw.integers(1, 41, (400, 12)))
    x[np.arange(12) >= draw.integers(3, 13, 400)[:, None]] = 0
    np.savez(path, x=x, y=y)
