"""Hundreds of rounds in which clients come and go: nothing is lost, and no process grows."""

from __future__ import annotations

import os
from collections import defaultdict
from random import Random

import psutil
import pytest

from tests.benchmarks.figure import slope
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Coordinator, until
from wire.exit_codes import ExitCode

NUM_CLIENTS = 20
NUM_ROUNDS = int(os.environ.get("SOAK_ROUNDS", "300"))
WARM_UP_ROUNDS = 20
MAX_BYTES_PER_ROUND = 10 * 1024


class Sizes:
    """Resident memory and open descriptors of processes, round by round."""

    def __init__(self, **processes: psutil.Process) -> None:
        self._processes = processes
        self.rounds: list[float] = []
        self.resident: dict[str, list[float]] = defaultdict(list)
        self.descriptors: dict[str, list[int]] = defaultdict(list)

    def take(self, round: int) -> None:
        """Note what they take after so many rounds."""
        self.rounds.append(round)
        for name, process in self._processes.items():
            self.resident[name].append(process.memory_info().rss)
            self.descriptors[name].append(process.num_fds())


def see_closed(coordinator: Coordinator, round: int) -> None:
    """Wait until a round is closed."""
    until(lambda: len(coordinator.rounds) >= round, f"round {round} is closed", within_s=60.0)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_clients_come_and_go(pairs: PairsRun) -> None:
    """One client in twenty is killed in every round, and started again; the first one stays and is watched."""
    pairs.configure(
        run={"num_rounds": NUM_ROUNDS}, data={"num_clients": NUM_CLIENTS}, round={"min_clients": NUM_CLIENTS}
    )
    random = Random(0)
    coordinator, clients = pairs.serve_all(*range(NUM_CLIENTS))
    sizes = Sizes(
        coordinator=psutil.Process(coordinator.pid),
        aggregator=coordinator.child("coordinator.aggregator"),
        client=psutil.Process(clients[0].pid),
    )
    num_killed = 0
    for number in range(1, NUM_ROUNDS - 1):
        see_closed(coordinator, number)
        if number > WARM_UP_ROUNDS:
            sizes.take(number)
        index = random.randrange(1, NUM_CLIENTS)
        clients[index].kill()
        clients[index] = pairs.client(index, coordinator.address)
        num_killed += 1
    assert coordinator.wait(60.0) == ExitCode.FINISHED
    assert num_killed == NUM_ROUNDS - 2
    assert coordinator.summary["updates"]["accepted"] == 2 * NUM_CLIENTS * NUM_ROUNDS
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()
    growth = {name: slope(sizes.rounds, resident) for name, resident in sizes.resident.items()}
    print(f"growth in bytes a round: {growth}")
    assert max(growth.values()) < MAX_BYTES_PER_ROUND
    for descriptors in sizes.descriptors.values():
        assert max(descriptors[-20:]) <= max(descriptors[:20]) + 2, descriptors
