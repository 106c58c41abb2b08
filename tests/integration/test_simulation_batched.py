"""Clients that train together in a simulation: what it comes to, and what is said of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from models.settings import read_toml
from tests.integration.simulated import settings, simulated_here

pytest.importorskip("torch")
pytest.importorskip("sklearn")


def simulated(folder: Path, batched: str, *more: str) -> dict[str, Any]:
    return simulated_here(folder, settings(f"simulation.batched={batched}", "data.num_clients=3", *more))


def log_of(folder: Path) -> str:
    (log,) = folder.glob("*/log.txt")
    return log.read_text()


def test_training_together_comes_to_the_same_and_is_marked(tmp_path: Path) -> None:
    alone, together = simulated(tmp_path / "alone", "false"), simulated(tmp_path / "together", "true")
    assert together["batched"]
    assert "batched" not in alone
    assert together["uplink"] == alone["uplink"]
    assert together["accuracy"]["best"] == pytest.approx(alone["accuracy"]["best"], abs=0.01)
    assert "one after the other" not in log_of(tmp_path / "together")


def test_a_method_that_cannot_falls_back_to_the_same_bits_and_says_so(tmp_path: Path) -> None:
    alone = simulated(tmp_path / "alone", "false", "method.name=fedpa", "run.num_rounds=1")
    together = simulated(tmp_path / "together", "true", "method.name=fedpa", "run.num_rounds=1")
    assert together["global_hash"] == alone["global_hash"]
    said = "clients with net 'mlp' train one after the other, not batched: the method's local step is no plain loss"
    assert said in log_of(tmp_path / "together")


def test_what_auto_has_chosen_is_written_into_the_config(tmp_path: Path) -> None:
    summary = simulated(tmp_path / "run", "auto", "run.num_rounds=1")
    (config,) = (tmp_path / "run").glob("*/config.toml")
    chosen = read_toml(config)["simulation"]["batched"]
    assert chosen is summary.get("batched", False)
    assert f"batched = 'auto': {str(chosen).lower()}" in log_of(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("net", ["cnn", "resnet8", "vit", "efficientnet_b0", "shufflenet_v2"])
def test_every_kind_of_net_trains_together_or_says_why_not(net: str, tmp_path: Path) -> None:
    more = (
        f"model.name={net}",
        "model.patch_size=4",
        "training.local_steps=2",
        "run.num_rounds=1",
        "gate.max_abs=1e15",
    )
    alone, together = simulated(tmp_path / "alone", "false", *more), simulated(tmp_path / "together", "true", *more)
    fell_back = "one after the other" in log_of(tmp_path / "together")
    assert (alone["global_hash"] == together["global_hash"]) is fell_back
