"""Runs simulated in the test's own process, which has torch already, and what of a run can be compared."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from coordinator import cli
from tests.integration.processes import Coordinator
from wire.exit_codes import ExitCode

SMALL = (
    "run.num_rounds=2",
    "data.num_clients=2",
    "model.name=mlp",
    "model.feature_dim=16",
    "training.local_epochs=1",
)


def settings(*more: str) -> list[str]:
    """Return the arguments for a small run with these settings laid over it."""
    return [word for setting in (*SMALL, *more) for word in ("--set", setting)]


def simulated_here(folder: Path, chosen: list[str], code: ExitCode = ExitCode.FINISHED) -> dict[str, Any]:
    """Simulate into a folder that is made for it, to this exit code, and return the summary."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal, "signal", lambda *_: None)
        assert cli.main(["simulate", *chosen, "--set", f"run.dir={folder}"]) == code
    (summary,) = folder.glob("*/summary.json")
    content: dict[str, Any] = json.loads(summary.read_text())
    return content


def finished(coordinator: Coordinator) -> dict[str, Any]:
    """Wait for a run in a process of its own, and return the summary."""
    assert coordinator.wait(100) == 0, coordinator.said
    return coordinator.summary


def comparable(summary: dict[str, Any]) -> dict[str, Any]:
    """Return all that follows from config and seed alone."""
    counted = ("elements", "predicted_elements", "payload_bytes", "encoded_bytes")
    sides = {side: {key: summary[side][key] for key in counted} for side in ("uplink", "downlink")}
    sides["init"] = {key: summary["init"][key] for key in ("elements", "payload_bytes", "encoded_bytes")}
    accuracies = {key: summary[key] for key in ("accuracy", "accuracy_by_rule")}
    return {**sides, **accuracies, "global_hash": summary["global_hash"], "accepted": summary["updates"]["accepted"]}
