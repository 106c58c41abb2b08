"""The simulator against real processes: the same config and seed must give the same arrays, accuracies and bytes."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models import methods
from models.methods.api import Update
from models.methods.local_only.server import LocalOnlyServer
from tests.architecture.source import ROOT
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Processes
from tests.integration.simulated import comparable, finished, settings, simulated_here


def every_method() -> Iterator[Any]:
    """Yield all methods; each loads torch in five processes, so all but the default one are slow tests."""
    for name in methods.names():
        yield pytest.param(name, marks=[] if methods.find(name).is_default else [pytest.mark.slow])


@pytest.mark.parametrize("method", list(every_method()))
def test_a_simulated_run_has_the_bits_of_a_loopback_run(method: str, processes: Processes, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    chosen = settings(f"method.name={method}")
    loopback = processes.coordinator("loopback", *chosen)
    simulated = simulated_here(tmp_path / "simulated", chosen)
    assert comparable(simulated) == comparable(finished(loopback))
    assert simulated["uplink"]["predicted_elements"] == simulated["uplink"]["elements"]
    assert simulated["uplink"]["wire_bytes"] is None
    assert simulated["coordination_s"]["median"] is None


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "tinyproto-fp"])
def test_classes_in_tasks_too(method: str, processes: Processes, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    chosen = settings(f"method.name={method}", "tasks.num_tasks=2")
    loopback = processes.coordinator("loopback", *chosen)
    simulated = simulated_here(tmp_path / "simulated", chosen)
    real = finished(loopback)
    assert comparable(simulated) == comparable(real)
    assert simulated["tasks"] == real["tasks"]
    assert simulated["uplink"]["predicted_elements"] == simulated["uplink"]["elements"]


def test_a_server_half_hears_of_the_samples_of_all_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    told: list[tuple[int, int]] = []

    def aggregate(half: LocalOnlyServer, round: int, exchange: str, updates: Iterator[Update]) -> dict[str, float]:
        told.append((sum(update.num_train for update in updates), half.num_train))
        return {}

    monkeypatch.setattr(LocalOnlyServer, "aggregate", aggregate)
    simulated_here(tmp_path / "simulated", settings("method.name=local_only", "tasks.num_tasks=2"))
    assert [present for present, _ in told] == [everyone for _, everyone in told]
    assert len(told) == 2


@pytest.mark.slow
def test_noise_that_follows_from_the_seed_too(processes: Processes, tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    pytest.importorskip("sklearn")
    shutil.copy(ROOT / "tests/models/frozen_method.py", tmp_path)
    config = tmp_path / "run.toml"
    config.write_text('[method]\nname = "frozen_method:METHOD"\n[privacy]\nnoise_multiplier = 4.0\n')
    chosen = ["--config", str(config), *settings()]
    simulated = finished(processes.coordinator("simulate", *chosen, name="simulated"))
    real = finished(processes.coordinator("loopback", *chosen, name="real"))
    assert comparable(simulated) == comparable(real)
    assert simulated["privacy"] == real["privacy"]


def test_two_exchanges_and_run_constants_too(pairs: PairsRun, processes: Processes) -> None:
    simulated = finished(processes.coordinator("simulate", "--config", pairs.config_path, name="simulated"))
    real = finished(pairs.loopback(name="real"))
    assert comparable(simulated) == comparable(real)


def test_a_stopped_simulation_leaves_a_readable_folder(pairs: PairsRun, processes: Processes) -> None:
    pairs.configure(run={"num_rounds": 100_000})
    simulation = processes.coordinator("simulate", "--config", pairs.config_path)
    simulation.hear(r"\[ROUND 3/100000\]")
    assert simulation.stop(signal.SIGINT) == 5
    assert simulation.summary["rounds_completed"] >= 3
    assert "Traceback" not in simulation.said
    status = processes.coordinator("status", simulation.folder, "--format", "json", name="status")
    assert status.wait() == 0
    told = json.loads("\n".join(status.printed))
    assert told["rounds_completed"] == simulation.summary["rounds_completed"]
    assert set(told["clients"]) == {"client-00", "client-01"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_simulation_tells_of_states_that_are_broken_or_gone(pairs: PairsRun, processes: Processes, jobs: int) -> None:
    pairs.configure(run={"num_rounds": 100_000})
    simulation = pairs.simulate()
    simulation.hear(r"\[ROUND 3/100000\]")
    simulation.kill()
    states = list((simulation.folder / "clients/client-01").glob("*.safetensors"))  # a kill may leave others, which go
    for state in states:
        state.write_bytes(b"torn")
    go_on = ("--resume", str(simulation.folder), "--jobs", str(jobs))
    broken = processes.coordinator("simulate", *go_on, name="broken")
    assert broken.wait() == 5
    assert "; remove it, and this client goes on without it" in broken.said
    assert "Traceback" not in broken.said
    for state in states:
        state.unlink()
    gone = processes.coordinator("simulate", *go_on, name="gone")
    gone.hear("the run goes on in round [0-9]+, exchange '(sums|echoes)'")
    gone.hear("client-01: expected to find its state after (exchange 0 of )?round [0-9]+, found none, and begins anew")
    gone.kill()
    assert "client-00: expected" not in gone.said


def test_a_killed_simulation_leaves_a_readable_folder(pairs: PairsRun, processes: Processes) -> None:
    pairs.configure(run={"num_rounds": 100_000})
    simulation = processes.coordinator("simulate", "--config", pairs.config_path)
    simulation.hear(r"\[ROUND 3/100000\]")
    simulation.kill()
    status = processes.coordinator("status", simulation.folder, name="status")
    assert status.wait() == 0
    assert "in round" in status.printed[0]


def test_a_run_starts_from_another_runs_global_state(pairs: PairsRun, processes: Processes) -> None:
    first = processes.coordinator("simulate", "--config", pairs.config_path, name="first")
    earlier = finished(first)
    assert earlier["rounds_completed"] == 2
    start = ("--init-from", first.folder)
    simulated = finished(processes.coordinator("simulate", "--config", pairs.config_path, *start, name="second"))
    real = finished(pairs.loopback("--init-from", str(first.folder), name="real"))
    assert comparable(simulated) == comparable(real)
    assert simulated["downlink"]["predicted_elements"] == simulated["downlink"]["elements"]
    origin = {"run_id": earlier["run_id"], "round": 2, "global_hash": earlier["global_hash"][-1], "classes": [0, 1, 2]}
    assert simulated["init_from"] == real["init_from"] == origin


def test_a_run_that_is_stopped_and_goes_on_remembers_what_it_started_from(
    pairs: PairsRun, processes: Processes
) -> None:
    first = processes.coordinator("simulate", "--config", pairs.config_path, name="first")
    earlier = finished(first)
    pairs.configure(run={"num_rounds": 100_000})
    second = pairs.simulate("--init-from", str(first.folder), name="second")
    second.hear(r"\[ROUND 3/100000\]")
    second.stop()
    third = pairs.simulate("--init-from", str(second.folder), "--set", "run.num_rounds=1", name="third")
    assert finished(third)["init_from"]["run_id"] == second.summary["run_id"]
    again = processes.coordinator("simulate", "--resume", second.folder, name="again")
    again.hear(r"\[ROUND ")
    again.stop()
    for run in (second, again):
        assert run.summary["init_from"]["run_id"] == earlier["run_id"]


def test_another_methods_state_is_refused(pairs: PairsRun, processes: Processes) -> None:
    first = processes.coordinator("simulate", "--config", pairs.config_path, name="first")
    finished(first)
    second = processes.coordinator("simulate", "--init-from", first.folder, name="second")
    assert second.wait() == 2
    assert "expected a run of method" in second.said
    assert not second.printed


def test_what_an_audit_needs_outlives_the_states_of_the_clients(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    simulated_here(tmp_path / "simulated", settings("privacy.audit=true", "run.num_rounds=1"))
    names = {path.name for path in tmp_path.glob("simulated/*/clients/*/*")}
    assert names == {"features-1.safetensors"}
