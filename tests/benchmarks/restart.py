"""How long a run stands still when a daemon is killed and at once started again; clients compute next to nothing."""

from __future__ import annotations

import time
from pathlib import Path

from tests.benchmarks.figure import Figure
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Coordinator, Processes, until

REPEATS = 5
NUM_ROUNDS = 100_000
"""More than can be closed while this measures."""

MAX_CLIENT_S = 2.0
MAX_COORDINATOR_S = 3.0


def run(out: Path) -> list[Figure]:
    """Return the times from the start of the second process until the run goes on."""
    processes = Processes(out)
    pairs = PairsRun(out, processes)
    pairs.configure(run={"num_rounds": NUM_ROUNDS})
    client_s, coordinator_s = [], []
    try:
        coordinator, clients = pairs.serve_all(0, 1)
        for number in range(REPEATS):
            _see_a_round(coordinator)
            clients[1].kill()
            started = time.monotonic()
            clients[1] = pairs.client(1, coordinator.address)
            coordinator.hear("client-01 joined", times=number + 2)
            client_s.append(time.monotonic() - started)
        for number in range(REPEATS):
            coordinator.kill()
            started = time.monotonic()
            coordinator = pairs.resume(coordinator, name=f"resumed-{number}")
            _see_a_round(coordinator)
            coordinator_s.append(time.monotonic() - started)
    finally:
        processes.close()
    return [
        Figure.of("client: until it has joined again", "s", client_s, target=MAX_CLIENT_S),
        Figure.of("coordinator: until a round is closed again", "s", coordinator_s, target=MAX_COORDINATOR_S),
    ]


def _see_a_round(coordinator: Coordinator) -> None:
    """Wait until one more round is closed."""
    before = _num_rounds(coordinator)
    until(lambda: _num_rounds(coordinator) > before, "one more round is closed")


def _num_rounds(coordinator: Coordinator) -> int:
    ((count,),) = coordinator.stored("SELECT count(*) FROM rounds")
    return int(count)
