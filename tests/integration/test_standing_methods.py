"""Three experiments in a row over the same clients, with real methods, beside fresh runs of their own."""

from __future__ import annotations

from collections.abc import Sequence

import psutil
import pytest

from coordinator import client_api
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Process, until
from tests.integration.standing_service import StandingService
from wire.exit_codes import ExitCode

pytest.importorskip("torch")

NUM_CLIENTS = 5
EXPERIMENTS = (("fedproto", 0), ("fedavg", 1), ("tinyproto-fp", 2))
MAX_GROWTH = 1.05
RUN_S = 100.0


def settings(method: str, seed: int) -> list[str]:
    return [
        f"method.name={method}", f"run.seed={seed}", "run.num_rounds=1", f"data.num_clients={NUM_CLIENTS}",
        "report.page=false",
    ]  # fmt: skip


def without_trainers(clients: Sequence[Process]) -> list[int]:
    """Wait until no client has a child, and return their resident memory."""
    processes = [psutil.Process(client.pid) for client in clients]
    until(lambda: not any(process.children() for process in processes), "trainers end with their run")
    return [process.memory_info().rss for process in processes]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_three_experiments_without_a_login_are_three_fresh_runs(pairs: PairsRun) -> None:
    service = StandingService(pairs)
    service.start()
    clients = [service.client(index) for index in range(NUM_CLIENTS)]
    hashes, resident_bytes = [], []
    for experiment in EXPERIMENTS:
        run_id = client_api.submit(None, settings(*experiment), service.folder)
        assert service.outcome(run_id, RUN_S) == "finished"
        hashes.append(service.summary(run_id)["global_hash"])
        resident_bytes.append(without_trainers(clients))
    first, _, third = resident_bytes
    assert all(after <= MAX_GROWTH * before for before, after in zip(first, third, strict=True))
    for experiment, found in zip(EXPERIMENTS, hashes, strict=True):
        sets = [word for setting in settings(*experiment) for word in ("--set", setting)]
        loopback = pairs.processes.coordinator("loopback", *sets, name=experiment[0])
        assert loopback.wait(RUN_S) == ExitCode.FINISHED
        assert loopback.summary["global_hash"] == found
