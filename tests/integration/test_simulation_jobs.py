"""Several processes that work for a simulation's clients: nothing shows that in what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Coordinator, Processes, booked
from tests.integration.simulated import comparable, finished, settings, simulated_here

JOB = "coordinator.simulation.job"


def simulate(pairs: PairsRun, jobs: int, *more: str) -> Coordinator:
    return pairs.processes.coordinator(
        "simulate", "--config", pairs.config_path, "--jobs", str(jobs), *more, name=f"jobs-{jobs}"
    )


def lines(run: Coordinator) -> list[dict[str, Any]]:
    """Return what was booked, without what was measured."""
    measured = ("_s", "_peak_rss_bytes")
    return [
        {key: content for key, content in line.items() if not key.endswith(measured)} for line in booked(run.folder)
    ]


def test_two_jobs_make_the_bits_and_bytes_of_one(pairs: PairsRun) -> None:
    pairs.configure(data={"num_clients": 3})
    one, two = simulate(pairs, 1), simulate(pairs, 2)
    assert comparable(finished(one)) == comparable(finished(two))
    assert lines(one) == lines(two)
    left = {path.name for path in two.folder.iterdir()}
    assert not {"samples", "clients"} & left


def test_a_job_that_dies_is_replaced_and_its_client_asked_again(pairs: PairsRun) -> None:
    undisturbed = finished(simulate(pairs, 1))
    pairs.gates.shut("client-01", how="die")
    run = simulate(pairs, 2)
    pairs.gates.see("client-01")
    pairs.gates.open("client-01")
    assert comparable(finished(run)) == comparable(undisturbed)


def test_a_client_that_kills_every_job_ends_the_run_in_words(pairs: PairsRun) -> None:
    pairs.gates.shut("client-01", how="die")
    run = simulate(pairs, 2)
    assert run.wait() == 4
    assert "client-01: a job died 3 times at its work: ended with exit code 1" in run.said


def test_jobs_end_with_their_simulation(pairs: PairsRun) -> None:
    pairs.gates.shut("client-00")
    run = simulate(pairs, 2)
    pairs.gates.see("client-00")
    run.child(JOB)
    run.kill()
    pairs.processes.see_none_left()


@pytest.mark.slow
def test_training_in_two_jobs_has_the_bits_of_one(tmp_path: Path, processes: Processes) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    chosen = settings("method.name=fedavg", "data.num_clients=3")
    run = processes.coordinator("simulate", *chosen, "--jobs", "2")
    one = simulated_here(tmp_path / "one", chosen)
    two = finished(run)
    assert comparable(one) == comparable(two)
    assert two["memory"]["trainer_peak_rss_bytes"] > 0
