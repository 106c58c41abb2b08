"""The main job with torch, on real data, from the example files as they stand."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.integration.keyring import Keyring
from tests.integration.processes import WAIT_S, Processes
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

for needed in ("torch", "sklearn"):
    pytest.importorskip(needed)

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"

TORCH_S = 3 * WAIT_S
"""How long a run may take whose clients import torch."""


@pytest.mark.slow
def test_the_examples_run_as_they_stand(tmp_path: Path, processes: Processes) -> None:
    """The first client is the example with the coordinator's key, the others are that with another id and index."""
    keyring = Keyring(tmp_path, map(client_id, range(4)))
    bind = [] if is_free("127.0.0.1:7071") else ["--set", "transport.bind=127.0.0.1:0"]
    coordinator = processes.coordinator("serve", "--config", EXAMPLES / "run.toml", *bind)
    address = ["--set", f"coordinator.address={coordinator.address}"] if bind else []
    address += ["--set", f"coordinator.public_key={keyring.coordinator.public}"]
    clients = []
    for index, name in enumerate(keyring.pairs):
        own = ["--set", f"client.key={keyring.secret_file(name)}"]
        other = ["--set", f"client.id={name}", "--set", f"data.index={index}"] if index else []
        clients.append(processes.client(EXAMPLES / "client.toml", "--once", *address, *own, *other, name=name))
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
