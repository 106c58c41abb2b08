"""Pretraining: a file that a run can start from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models import nets
from models.nets.vit_weights import read_backbone
from models.pretrain import main
from models.training import make_optimizer

SIZES: dict[str, Any] = {"patch_size": 2, "depth": 1, "num_heads": 2}

SETTINGS = (
    "data.dataset=tests.models.small_run:load",
    "model.feature_dim=8",
    *(f"model.{key}={size}" for key, size in SIZES.items()),
    "training.batch_size=4",
    "training.local_epochs=6",
)


def pretrain(path: Path, *more: str) -> int:
    return main([str(path), *(f"--set={setting}" for setting in (*SETTINGS, *more))])


def test_it_learns_and_writes_all_but_the_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pretrain(tmp_path / "vit.safetensors") == 0
    said = capsys.readouterr().out.splitlines()
    losses = [float(line.rpartition(" ")[2]) for line in said[:-1]]
    assert len(losses) == 6
    assert losses[-1] < losses[0]
    assert said[-1].startswith("accuracy ")
    net = nets.build_net("vit", (1, 4, 4), 8, 7, weights=str(tmp_path / "vit.safetensors"), **SIZES)
    held = read_backbone(tmp_path / "vit.safetensors")
    assert {*held, "head.weight", "head.bias"} == set(nets.net_arrays(net))
    assert np.array_equal(nets.net_arrays(net)["blocks.0.attn.qkv.weight"], held["blocks.0.attn.qkv.weight"])


def test_it_repeats(tmp_path: Path) -> None:
    made: list[Any] = []
    for name in ("one", "other"):
        assert pretrain(tmp_path / name, "training.local_epochs=1") == 0
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1]


def test_one_optimizer_goes_through_all_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def noted(*what: Any) -> Any:
        made.append(make_optimizer(*what))
        return made[-1]

    monkeypatch.setattr("models.training.make_optimizer", noted)
    assert pretrain(tmp_path / "vit.safetensors", "training.local_epochs=3") == 0
    (optimizer,) = made
    assert {int(each["step"]) for each in optimizer.state.values()} == {3 * 20 // 4}


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_it_trains_on_the_device_that_is_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pretrain(tmp_path / "vit.safetensors", "training.device=cuda") == 2
    assert "[training] device = 'cuda'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ("model.dept=3", "did you mean 'depth'?"),
        ("run.seed=3", "unknown key 'run'"),
        ("model.patch_size=3", "whole patches"),
    ],
)
def test_settings_that_cannot_be_used_are_one_line(
    setting: str, refusal: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pretrain(tmp_path / "vit.safetensors", setting) == 2
    assert refusal in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
