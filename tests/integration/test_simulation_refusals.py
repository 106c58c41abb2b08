"""Updates that cannot be right, in a simulation: refused as on the wire, and no failure of the method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coordinator.store.run_folder import RunFolder
from tests.integration.pairs_run import Counted, PairsRun
from tests.integration.processes import Processes, booked
from tests.integration.served_run import client_id
from tests.integration.simulated import comparable, finished, simulated_here

OTHERS, LOUD = (0, 1, 3), 2
"""The clients by index; the sums of one are larger than all others'."""

TWICE_WITHOUT = [Counted(OTHERS, (*OTHERS, LOUD)), Counted(OTHERS, OTHERS), Counted(OTHERS, OTHERS)]
"""It is refused in the first exchange of two rounds, and after the second time left out."""


def configure(pairs: PairsRun, **gate: Any) -> None:
    """Three rounds of four clients, with a gate."""
    pairs.configure(
        run={"num_rounds": 3}, data={"num_clients": 4, "partition": "dirichlet"}, round={"min_clients": 2}, gate=gate
    )


def statuses(folder: Path) -> list[tuple[int, int, str, str]]:
    """Return what became of each client in each exchange."""
    lines = (line for line in booked(folder) if line["kind"] == "client")
    return [(line["round"], line["exchange_index"], line["client"], line["status"]) for line in lines]


def test_a_client_is_refused_then_left_out_and_the_others_go_on(pairs: PairsRun, tmp_path: Path) -> None:
    configure(pairs, max_abs=16, max_refusals=2)
    summary = simulated_here(tmp_path / "simulated", ["--config", str(pairs.config_path)])
    (folder,) = (tmp_path / "simulated").iterdir()
    assert summary["global_hash"] == pairs.expected_hashes(TWICE_WITHOUT)
    assert (summary["rounds_completed"], summary["updates"]["refused"]) == (3, 2)
    loud = [(round, index, status) for round, index, client, status in statuses(folder) if client == client_id(LOUD)]
    assert loud == [(1, 0, "refused"), (1, 1, "accepted"), (2, 0, "refused"), (2, 1, "missing")]
    assert "client-02 is left out of the run" in RunFolder(folder).log_path.read_text()


def test_rounds_below_the_quorum_fail_and_say_why(pairs: PairsRun, processes: Processes) -> None:
    configure(pairs, max_abs=1)
    simulation = processes.coordinator("simulate", "--config", pairs.config_path)
    assert simulation.wait() == 4
    assert simulation.summary["rounds_failed"] == 3
    reason = simulation.rounds[0]["reason"]
    assert reason.startswith("exchange 0 ended with 1 of 2 updates (min_clients); refused: client-00, client-02,")
    assert "(client-00: exchange 'sums': field 'sums': expected up to [gate] max_abs = 1, got " in reason


@pytest.mark.slow
def test_refusals_have_the_bits_and_bytes_of_a_loopback_run(pairs: PairsRun, processes: Processes) -> None:
    configure(pairs, max_abs=16, max_refusals=2)
    simulation = processes.coordinator("simulate", "--config", pairs.config_path, name="simulated")
    simulated = finished(simulation)
    loopback = pairs.loopback(name="real")
    real = finished(loopback)
    assert comparable(simulated) == comparable(real)
    assert simulated["updates"] == real["updates"]
    assert statuses(simulation.folder) == statuses(loopback.folder)
    assert max(line["round_s"] for line in loopback.rounds) < 10.0
