"""Settings that reach through the whole runtime: different nets, initial weights, encodings and test samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.processes import Processes, booked
from tests.integration.simulated import comparable, finished, settings, simulated_here

pytest.importorskip("torch")
pytest.importorskip("sklearn")


def uplinks(summary: dict[str, Any]) -> dict[str, int]:
    return {key: summary["uplink"][key] for key in ("elements", "payload_bytes")}


@pytest.mark.slow
def test_clients_with_different_nets_have_the_bits_of_a_loopback_run(processes: Processes, tmp_path: Path) -> None:
    chosen = settings('model.names=["mlp", "cnn"]', "model.init=per_client", "wire.value_dtype=bf16")
    loopback = processes.coordinator("loopback", *chosen)
    simulated = simulated_here(tmp_path / "simulated", chosen)
    same_net = simulated_here(tmp_path / "same", settings("model.init=per_client", "wire.value_dtype=bf16"))
    assert comparable(simulated) == comparable(finished(loopback))
    assert simulated["uplink"]["elements"] == simulated["uplink"]["predicted_elements"]
    assert simulated["uplink"]["elements"] == same_net["uplink"]["elements"]
    assert simulated["global_hash"][0] != same_net["global_hash"][0]


@pytest.mark.parametrize("method", ["fedproto", "fedavg"])
def test_values_of_half_the_width_halve_their_bytes_and_keep_the_accuracy(method: str, tmp_path: Path) -> None:
    chosen = settings(f"method.name={method}", "training.local_epochs=3")
    made = {
        dtype: simulated_here(tmp_path / dtype, [*chosen, "--set", f"wire.value_dtype={dtype}"])
        for dtype in ("f32", "f16", "bf16")
    }
    for dtype in ("f16", "bf16"):
        for side in ("uplink", "downlink"):
            full, half = made["f32"][side], made[dtype][side]
            assert half["elements"] == full["elements"] > 0
            assert full["payload_bytes"] - half["payload_bytes"] == 2 * full["elements"]
        assert made[dtype]["global_hash"] != made["f32"]["global_hash"]
        assert made[dtype]["accuracy"]["last"] == pytest.approx(made["f32"]["accuracy"]["last"], abs=0.03)
    assert made["f32"]["accuracy"]["last"] > 0.5


def test_each_client_can_begin_with_weights_of_its_own(tmp_path: Path) -> None:
    common, own = (simulated_here(tmp_path / init, settings(f"model.init={init}")) for init in ("common", "per_client"))
    assert own["global_hash"] != common["global_hash"]
    assert uplinks(own) == uplinks(common)
    assert own["accuracy"]["last"] > 0.5


def test_all_clients_can_be_tested_on_the_same_samples(tmp_path: Path) -> None:
    made = {
        test: simulated_here(tmp_path / test, settings(f"evaluation.test={test}", "method.name=fedavg"))
        for test in ("own", "global")
    }
    assert made["global"]["global_hash"] == made["own"]["global_hash"], "what is tested changes nothing else"
    own, shared = (num_tested(tmp_path / test) for test in ("own", "global"))
    assert shared == dict.fromkeys(own, sum(own.values()))
    accuracies = set(made["global"]["accuracy"]["per_client"].values())
    assert len(accuracies) == 1, "the same global model on the same samples"


def num_tested(folder: Path) -> dict[str, int]:
    """Return on how many samples each client was tested."""
    (run,) = folder.iterdir()
    return {
        line["client"]: line["evaluations"][0]["num_test"]
        for line in booked(run)
        if line["kind"] == "client" and line["evaluations"]
    }
