"""What encryption costs: the bare transport at two sizes, and rounds of clients that compute nothing."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from tests.benchmarks.limits.transport import Shape, transport_ms

SIZES = {"2 KB": 2_000, "200 KB": 200_000}
NUM_ECHOES = 400

NUM_CLIENTS = 8
NUM_ROUNDS = 100
REPEATS = 5
"""Runs of each kind."""


def run(out: Path) -> list[Figure]:
    """Return encrypted durations beside plain ones, which are their limit."""
    figures = []
    for name, size in SIZES.items():
        echo = Shape([size], [size], [])
        plain = Figure.of(f"{name} there and back, plain", "ms", transport_ms(1, echo, False, NUM_ECHOES))
        about = {"limit": plain.median, "limit_name": "plain"}
        encrypted_ms = transport_ms(1, echo, True, NUM_ECHOES)
        figures += [plain, Figure.of(f"{name} there and back, CURVE", "ms", encrypted_ms, **about)]
    return figures + _rounds(out)


def _rounds(out: Path) -> list[Figure]:
    """Return the medians of runs that took turns, so that other work on the machine met both kinds."""
    settings = job.noop_settings(out, NUM_CLIENTS, NUM_ROUNDS, "memory")
    medians: dict[str, list[float]] = {"none": [], "curve": []}
    for _ in range(REPEATS):
        for security, found in medians.items():
            summary = job.run([*settings, f"transport.security={security}"], out).summary
            found.append(1000 * summary["coordination_s"]["median"])
    plain = Figure.of(f"{NUM_CLIENTS} clients: coordination, plain", "ms", medians["none"])
    about = {"limit": plain.median, "limit_name": "plain"}
    return [plain, Figure.of(f"{NUM_CLIENTS} clients: coordination, CURVE", "ms", medians["curve"], **about)]
