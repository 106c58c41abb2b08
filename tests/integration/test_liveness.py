"""Being alive has nothing to do with making progress: busy is not dead, and frozen is noticed."""

from __future__ import annotations

import signal
import time

from tests.integration.pairs_run import SILENCE_S, PairsRun
from tests.integration.processes import until
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

FIRST = client_id(0)


def test_a_client_whose_trainer_spins_is_alive_and_counted(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST, how="spin")
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST)
    busy_until = time.monotonic() + 5 * SILENCE_S
    until(lambda: time.monotonic() > busy_until or coordinator.ended, "the trainer has been busy")
    pairs.gates.open(FIRST)
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert "is gone: silent" not in coordinator.said
    assert clients[0].said.count("\n") == 2  # joined, and the end
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


def test_a_frozen_client_is_noticed_and_welcome_again(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST)
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST)
    clients[0].send(signal.SIGSTOP)
    coordinator.hear(f"{FIRST} is gone: silent for", within_s=2 * SILENCE_S)
    clients[0].send(signal.SIGCONT)
    coordinator.hear(f"{FIRST} joined", times=2)
    pairs.gates.open(FIRST)
    assert coordinator.wait() == ExitCode.FINISHED
    assert coordinator.summary["updates"]["accepted"] == 8
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


def test_a_frozen_coordinator_is_noticed_and_found_again(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST)
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST)
    coordinator.send(signal.SIGSTOP)
    for client in clients:
        client.hear("the coordinator is silent; trying again", within_s=2 * SILENCE_S)
    coordinator.send(signal.SIGCONT)
    pairs.gates.open(FIRST)
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert coordinator.summary["updates"]["accepted"] == 8
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()
