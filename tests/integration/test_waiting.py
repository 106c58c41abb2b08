"""A client that waits before it trains is alive, says so, and goes on where it was."""

from __future__ import annotations

import signal

import psutil
import pytest

from coordinator.status.reading import read_status
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import until
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

FIRST = client_id(0)


def test_a_paused_client_stays_in_the_run_and_says_so(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST)
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST)
    trainer = clients[0].child("edge_client.trainer")
    clients[0].send(signal.SIGUSR1)
    coordinator.hear(f"{FIRST} waits for SIGUSR2, as SIGUSR1 paused it\n")
    until(lambda: trainer.status() == psutil.STATUS_STOPPED, "the trainer stands still")
    until(lambda: FIRST in read_status(coordinator.folder).waiting, "the status says who waits")
    pairs.gates.open(FIRST)
    clients[0].send(signal.SIGUSR2)
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert f"{FIRST} is gone: silent" not in coordinator.said
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()
    assert read_status(coordinator.folder).waiting == {}


@pytest.mark.slow
def test_a_paused_client_can_be_stopped(pairs: PairsRun) -> None:
    coordinator = pairs.serve()
    client = pairs.client(0, coordinator.address, schedule={"hook": "false"}, limits={"nice": 19})
    coordinator.hear(f"{FIRST} waits for .*hook, which says no")
    second = pairs.client(1, coordinator.address)
    trainer = client.child("edge_client.trainer")
    until(lambda: trainer.status() == psutil.STATUS_STOPPED, "the trainer stands still")
    assert trainer.nice() == 19
    until(lambda: FIRST in read_status(coordinator.folder).connected, "the status says who is here")
    assert client.stop() == ExitCode.INTERRUPTED
    coordinator.hear(f"{FIRST} is gone: it left")
    assert coordinator.stop() == second.wait() == ExitCode.INTERRUPTED
