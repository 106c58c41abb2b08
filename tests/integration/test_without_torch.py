"""Clients over a frozen backbone beside torch clients, in real processes, and what can be made of their models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from edge_client import cli
from models.predictor import Predictor
from tests.integration.processes import Processes
from tests.models.onnx_files import write_backbone

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


@pytest.mark.slow
def test_clients_with_and_without_torch_share_a_run(
    tmp_path: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    write_backbone(tmp_path / "backbone.onnx", (1, 4, 4), 12)
    y = np.arange(80) % 4
    x = (np.random.default_rng(0).normal(size=(80, 1, 4, 4)) * 0.1 + y[:, None, None, None]).astype(np.float32)
    np.savez(tmp_path / "images.npz", x=x, y=y)
    settings = (
        'model.names=["onnx", "mlp"]',
        f"model.path={tmp_path / 'backbone.onnx'}",
        "model.feature_dim=6",
        "data.dataset=npz",
        f"data.root={tmp_path / 'images.npz'}",
        "data.partition=iid",
        "data.num_clients=2",
        "run.num_rounds=2",
        "report.page=false",
    )
    run = processes.coordinator("loopback", *(f"--set={setting}" for setting in settings))
    assert run.wait(60) == 0, run.said
    for way in ("uplink", "downlink"):
        assert run.summary[way]["elements"] == run.summary[way]["predicted_elements"] > 0
    frozen, trained = (run.folder / "clients" / f"client-{index:02d}" for index in range(2))
    assert "by CPUExecutionProvider" in (frozen / "log.txt").read_text()
    assert "CPUExecutionProvider" not in (trained / "log.txt").read_text()
    assert cli.main(["export", "--config", str(frozen / "client.toml")]) == 0
    assert "global_prototype" in capsys.readouterr().out
    assert Predictor(frozen / "model.onnx").accuracies(x, y)["global_prototype"] > 0.5
