"""Whether memory stays flat over many rounds."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import psutil

from tests.benchmarks import job
from tests.benchmarks.figure import Figure, slope

NUM_CLIENTS = 4
NUM_ROUNDS = 300
WARM_UP_ROUNDS = 20
MAX_BYTES_PER_ROUND = 10 * 1024


def run(out: Path) -> list[Figure]:
    """Return how many bytes each kind of process grows by in a round."""
    rounds: dict[int, list[float]] = defaultdict(list)
    resident: dict[int, list[float]] = defaultdict(list)
    kinds: dict[int, str] = {}

    def watch(running: job.RunningJob) -> None:
        closed = running.rounds_closed()
        for kind, process in running.processes():
            if closed < WARM_UP_ROUNDS or closed > NUM_ROUNDS - 5:
                return
            try:
                resident[process.pid].append(process.memory_info().rss)
            except psutil.Error:
                continue
            kinds[process.pid] = kind
            rounds[process.pid].append(closed)

    job.run(job.noop_settings(out, NUM_CLIENTS, NUM_ROUNDS, "disk"), out, watch)
    slopes: dict[str, list[float]] = defaultdict(list)
    for pid, kind in kinds.items():
        slopes[kind].append(slope(rounds[pid], resident[pid]))
    return [
        Figure.of(f"growth of {kind}", "bytes/round", slopes[kind], target=MAX_BYTES_PER_ROUND) for kind in job.KINDS
    ]
