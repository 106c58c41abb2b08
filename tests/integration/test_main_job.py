"""The main job with torch, on real data: small runs of each method, and the example files as they stand."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
import tomli_w

from models import methods
from tests.integration.processes import WAIT_S, Processes
from wire.exit_codes import ExitCode

for needed in ("torch", "sklearn"):
    pytest.importorskip(needed)

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"

TORCH_S = 3 * WAIT_S
"""How long a run may take whose clients import torch."""


def small_run(folder: Path, method: str) -> Path:
    """Write the config of two clients that train for two rounds, on digits."""
    tables = {
        "run": {"num_rounds": 2},
        "method": {"name": method},
        "data": {"num_clients": 2},
        "training": {"local_epochs": 1},
    }
    path = folder / "run.toml"
    path.write_text(tomli_w.dumps(tables))
    return path


@pytest.mark.parametrize("method", ["local_only", "fedavg"])
def test_a_small_run_of_a_method(processes: Processes, tmp_path: Path, method: str) -> None:
    run = processes.coordinator("loopback", "--config", small_run(tmp_path, method))
    assert run.wait(TORCH_S) == ExitCode.FINISHED
    processes.see_none_left()
    summary = run.summary
    assert summary["rounds_completed"] == 2
    assert summary["updates"] == {"accepted": 4, "duplicate": 0, "stale": 0, "refused": 0}
    for direction in ("uplink", "downlink"):
        traffic = summary[direction]
        assert traffic["elements"] == traffic["predicted_elements"]
        assert traffic["payload_bytes"] == traffic["predicted_payload_bytes"]
    assert set(summary["accuracy_by_rule"]) == set(methods.find(method).rules)
    assert all(0.3 < accuracy["last"] <= 1.0 for accuracy in summary["accuracy_by_rule"].values())
    assert set(summary["accuracy"]["per_client"]) == {"client-00", "client-01"}


def test_the_examples_run_as_they_stand(processes: Processes, tmp_path: Path) -> None:
    """The first client is the example, the others are that with another id and index."""
    bind = [] if is_free("127.0.0.1:7071") else ["--set", "transport.bind=127.0.0.1:0"]
    coordinator = processes.coordinator("serve", "--config", EXAMPLES / "run.toml", *bind)
    address = ["--set", f"coordinator.address={coordinator.address}"] if bind else []
    clients = [processes.client(EXAMPLES / "client.toml", "--once", *address)]
    for index in (1, 2, 3):
        name = f"client-{index:02d}"
        other = ["--set", f"client.id={name}", "--set", f"data.index={index}"]
        clients.append(processes.client(EXAMPLES / "client.toml", "--once", *address, *other, name=name))
    assert coordinator.wait(TORCH_S) == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 4
    summary = coordinator.summary
    assert (summary["method"], summary["rounds_completed"]) == ("fedproto", 10)
    assert summary["accuracy"]["rule"] == "local_prototype"
    assert summary["accuracy"]["best"] >= 0.94
    assert summary["accuracy_by_rule"]["head"]["best"] >= 0.94
    for direction in ("uplink", "downlink"):
        assert summary[direction]["elements"] == summary[direction]["predicted_elements"] > 0
        assert summary[direction]["payload_bytes"] == summary[direction]["predicted_payload_bytes"]


def is_free(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError:
            return False
    return True
