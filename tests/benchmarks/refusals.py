"""How fast a hostile update is refused: each of those that the tests send, from its sending to its refusal's coming."""

from __future__ import annotations

import time
from pathlib import Path

from tests.benchmarks.figure import Figure
from tests.integration.hostile import WIDTH, hostile_updates
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Processes
from tests.integration.raw_client import RawClient
from tests.integration.served_run import client_id
from wire.messages import Refusal, Task

NUM_TIMES = 20
"""How often each is sent."""

TARGET_MS = 100.0

FIRST, ATTACKER = client_id(0), 2


def run(out: Path) -> list[Figure]:
    """Return how long refusals take while two honest clients are in a round, and the slowest kind of them."""
    processes = Processes(out)
    pairs = PairsRun(out, processes)
    settings = {"run": {"num_rounds": 1}, "data": {"num_clients": 3}, "gate": {"max_refusals": 10**6}}
    pairs.configure(**settings, transport={"heartbeat_s": 30.0})
    pairs.gates.shut(FIRST)
    try:
        coordinator, _ = pairs.serve_all(0, 1)
        with pairs.peer(coordinator.address, client_id(ATTACKER)) as attacker:
            attacker.join(pairs.class_counts(ATTACKER), feature_dim=WIDTH)
            attacker.expect(Task)
            refused_ms = _refused_ms(attacker)
    finally:
        pairs.gates.open(FIRST)
        processes.close()
    slowest = max(refused_ms, key=lambda name: max(refused_ms[name]))
    every = [duration for durations in refused_ms.values() for duration in durations]
    return [
        Figure.of("refusal of a hostile update", "ms", every, target=TARGET_MS),
        Figure.of(f"slowest of all: {slowest}", "ms", [max(every)], target=TARGET_MS),
    ]


def _refused_ms(attacker: RawClient) -> dict[str, list[float]]:
    """Send every hostile update again and again, and wait for its refusal before the next."""
    durations: dict[str, list[float]] = {}
    for name, frames, *_ in list(hostile_updates(attacker.run)) * NUM_TIMES:
        started = time.perf_counter()
        attacker.send_frames(frames)
        attacker.expect(Refusal)
        durations.setdefault(name, []).append(1000 * (time.perf_counter() - started))
    return durations
