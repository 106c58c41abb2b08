"""What a round costs beside the clients' own work: clients that compute nothing, 10 x 50 float32 each way."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from tests.benchmarks.limits import transport

CLIENTS = (2, 8, 20)
STORES = ("memory", "disk")
NUM_ROUNDS = 100
"""So many that the first ones, which are slower, do not move the median."""

MAX_COORDINATION_MS = 10.0
"""The bound for the case below, in the median."""

BOUND_CASE = (20, "memory")


def run(out: Path) -> list[Figure]:
    """Return round and coordination times, beside those of two limits on the same machine."""
    return [figure for num_clients in CLIENTS for figure in _of_clients(out, num_clients)]


def _of_clients(out: Path, num_clients: int) -> list[Figure]:
    bare = Figure.of(f"{num_clients} clients: bare transport", "ms", transport.transport_ms(num_clients))
    daemons = Figure.of(f"{num_clients} clients: bare daemons", "ms", transport.daemons_ms(num_clients))
    about = {"limit": daemons.median, "limit_name": "bare daemons"}
    figures = [bare, daemons]
    for store in STORES:
        summary = job.run(job.noop_settings(out, num_clients, NUM_ROUNDS, store), out).summary
        name = f"{num_clients} clients, store {'in' if store == 'memory' else 'on'} {store}"
        target = MAX_COORDINATION_MS if (num_clients, store) == BOUND_CASE else None
        figures += [
            Figure.of_rounds(f"{name}: coordination", summary["coordination_s"], NUM_ROUNDS, target=target, **about),
            Figure.of_rounds(f"{name}: round", summary["round_s"], NUM_ROUNDS, **about),
        ]
    return figures
