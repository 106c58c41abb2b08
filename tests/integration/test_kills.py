"""A process that is killed at any moment changes nothing in what comes out, if everybody is waited for."""

from __future__ import annotations

import shutil

import pytest

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import END_S
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

FIRST = client_id(0)


def test_a_killed_client_that_is_started_again_is_served_at_once(pairs: PairsRun) -> None:
    """Before its silence could tell the coordinator that the killed one is gone."""
    pairs.configure(transport={"heartbeat_s": 30.0})
    pairs.gates.shut(FIRST)
    coordinator, (client, _) = pairs.serve_all(0, 1)
    for start in (2, 3, 4):
        pairs.gates.see(FIRST)
        client.kill()
        pairs.gates.shut(FIRST)
        client = pairs.client(0, coordinator.address)
        coordinator.hear(f"{FIRST} joined", times=start, within_s=END_S)
    pairs.gates.see(FIRST)
    pairs.gates.open(FIRST)
    assert coordinator.wait() == ExitCode.FINISHED
    assert client.wait() == ExitCode.FINISHED
    assert coordinator.summary["updates"] == {"accepted": 8, "duplicate": 0, "stale": 0, "refused": 0}
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


def test_both_sides_tell_that_a_killed_client_has_lost_its_state(pairs: PairsRun) -> None:
    pairs.configure(run={"num_rounds": 1000})
    coordinator, (client, _) = pairs.serve_all(0, 1)
    coordinator.hear(r"ROUND 1/")
    pairs.gates.shut(FIRST)
    pairs.gates.see(FIRST)
    client.kill()
    shutil.rmtree(pairs.folder / "state" / FIRST)
    pairs.gates.open(FIRST)
    client = pairs.client(0, coordinator.address)
    lost = coordinator.hear(f"{FIRST} goes on from another state than that of round ([0-9]+)")[1]
    client.hear(f"expected to find its state after (exchange 0 of )?round {lost}, found none, and begins anew")
    assert coordinator.stop() == ExitCode.INTERRUPTED
    assert client.said.count("expected to find") == coordinator.said.count("goes on from another state") == 1


def test_a_killed_trainer_is_started_again(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST)
    coordinator, (client, _) = pairs.serve_all(0, 1)
    for death in (1, 2, 3):
        pairs.gates.see(FIRST)
        trainer = client.child("edge_client.trainer")
        pairs.gates.shut(FIRST)
        trainer.kill()
        client.hear("the trainer died: ended with signal SIGKILL", times=death)
    pairs.gates.see(FIRST)
    pairs.gates.open(FIRST)
    assert coordinator.wait() == ExitCode.FINISHED
    assert client.wait() == ExitCode.FINISHED
    assert coordinator.said.count(f"{FIRST} joined") == 1
    assert coordinator.summary["updates"]["accepted"] == 8
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


@pytest.mark.parametrize("exchange", ["sums", "echoes"])
def test_a_killed_aggregator_is_started_again(pairs: PairsRun, exchange: str) -> None:
    gate = f"server-{exchange}"
    pairs.gates.shut(gate)
    run = pairs.loopback()
    pairs.gates.see(gate)
    aggregator = run.child("coordinator.aggregator")
    pairs.gates.shut(gate)
    aggregator.kill()
    pairs.gates.see(gate)
    pairs.gates.open(gate)
    assert run.wait() == ExitCode.FINISHED
    assert run.summary["global_hash"] == pairs.undisturbed_hashes()


def test_a_killed_client_of_loopback_is_started_again(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST)
    run = pairs.loopback()
    pairs.gates.see(FIRST)
    client = run.child(str((run.folder / "clients" / FIRST / "client.toml").relative_to(pairs.folder)))
    pairs.gates.shut(FIRST)
    client.kill()
    pairs.gates.open(FIRST)
    assert run.wait() == ExitCode.FINISHED
    assert run.summary["global_hash"] == pairs.undisturbed_hashes()


def test_a_trainer_that_always_dies_ends_its_client(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST, how="die")
    coordinator, (client, other) = pairs.serve_all(0, 1)
    assert client.wait() == ExitCode.FAILED
    assert "the trainer died 4 times: ended with exit code 1" in client.said
    coordinator.hear(f"{FIRST} is gone: it left: the trainer died")
    assert coordinator.stop() == other.wait() == ExitCode.INTERRUPTED


def test_an_aggregator_that_always_dies_ends_the_run(pairs: PairsRun) -> None:
    pairs.gates.shut("server-sums", how="die")
    run = pairs.loopback()
    assert run.wait() == ExitCode.FAILED
    assert "the aggregator died 3 times: ended with exit code 1" in run.said
    assert "Traceback" not in run.said
