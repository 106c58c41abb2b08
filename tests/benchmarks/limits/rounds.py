"""Coordination of a round beside the bare transport of the same bytes, plain and with CURVE.

The bare transport is a ROUTER in one process and all DEALERs in another, without any code of the project. Bare daemons
are two processes for each client, as the project has, that pass the bytes on and do nothing else. Our clients compute
nothing, and the store is in memory.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from tests.benchmarks.limits.transport import daemons_ms, shape_of, transport_ms
from tests.benchmarks.plugins.noop import some_prototypes

CASES = ((2, 10, 50), (8, 10, 50), (20, 10, 50), (8, 100, 500))
"""Clients, classes and width of the float32 values that travel each way."""

NUM_ROUNDS = 100
REPEATS = 3
"""Runs of each kind, of which the medians count; they take turns, so that other work on the machine meets all."""


def run(out: Path) -> list[Figure]:
    """Return what a round takes in each case, by all three."""
    return [figure for case in CASES for is_encrypted in (False, True) for figure in _of_case(out, *case, is_encrypted)]


def _of_case(out: Path, num_clients: int, num_classes: int, width: int, is_encrypted: bool) -> list[Figure]:
    name = f"{num_clients} clients, {num_classes} x {width}, {'CURVE' if is_encrypted else 'plain'}"
    shape = shape_of(some_prototypes(num_classes, width).to_payload().sizes.payload_bytes)
    settings = job.noop_settings(out, num_clients, NUM_ROUNDS, "memory", num_classes, width)
    settings += [f"transport.security={'curve' if is_encrypted else 'none'}"]
    transport, daemons, ours = [], [], []
    for _ in range(REPEATS):
        transport.append(statistics.median(transport_ms(num_clients, shape, is_encrypted)))
        daemons.append(statistics.median(daemons_ms(num_clients, shape, is_encrypted)))
        ours.append(1000 * job.run(settings, out).summary["coordination_s"]["median"])
    least = Figure.of(f"{name}: bare transport", "ms", transport)
    about = {"limit": least.median, "limit_name": "bare transport"}
    return [
        least,
        Figure.of(f"{name}: bare daemons", "ms", daemons, **about),
        Figure.of(f"{name}: coordination", "ms", ours, **about),
    ]
