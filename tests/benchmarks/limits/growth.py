"""How a round grows with clients, classes and the width of features, beside the bare transport.

As it is delivered: CURVE, and the store on disk. All clients are in one process that speaks the protocol and computes
nothing, so that what grows is the coordinator's, with its aggregator and its store. Bytes are TCP payload both ways, as
the kernel counts them, for each client.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks import crowd
from tests.benchmarks.figure import shown_number
from tests.benchmarks.limits.transport import shape_of, transport_ms
from tests.benchmarks.plugins.noop import some_prototypes
from tests.benchmarks.result import Claim, Curve, Findings, Plot, Table

NUM_CLIENTS, NUM_CLASSES, WIDTH = 20, 10, 50
"""Where it is another one that grows."""

CLIENTS = (1, 5, 20, 100, 300, 1000)
CLASSES = (10, 30, 100, 300, 1000)
WIDTHS = (50, 128, 512, 2048)

MAX_GROWTH = crowd.MAX_GROWTH
HEADER = ["round, ms", "bare transport, ms", "ratio", "bytes", "payload", "coordinator, MiB", "aggregator, MiB"]


class Point(NamedTuple):
    """What was measured at one size."""

    size: int
    round_ms: float
    bare_ms: float
    num_bytes: float
    payload_bytes: int
    coordinator_mib: float
    aggregator_mib: float


def run(out: Path) -> Findings:
    """Return the growth along each axis, and the claim about clients."""
    axes: dict[str, list[Point]] = {
        "clients": [_point(out, num, num, NUM_CLASSES, WIDTH) for num in CLIENTS],
        "classes": [_point(out, num, NUM_CLIENTS, num, WIDTH) for num in CLASSES],
        "width of features": [_point(out, width, NUM_CLIENTS, NUM_CLASSES, width) for width in WIDTHS],
    }
    return Findings(
        tables=[_table(axis, points) for axis, points in axes.items()],
        claims=[_claim(axes["clients"])],
        plots=[plot for axis, points in axes.items() for plot in _plots(axis, points)],
    )


def _point(out: Path, size: int, num_clients: int, num_classes: int, width: int) -> Point:
    payload_bytes = some_prototypes(num_classes, width).to_payload().sizes.payload_bytes
    bare_ms = statistics.median(transport_ms(num_clients, shape_of(payload_bytes), is_encrypted=True))
    summary = crowd.serve(out, num_clients, num_classes=num_classes, feature_dim=width)
    num_bytes = sum(summary["wire"][way]["rounds_bytes"] for way in ("uplink", "downlink"))
    peaks = [summary["memory"][f"{kind}_peak_rss_bytes"] / 2**20 for kind in ("coordinator", "aggregator")]
    round_ms = 1000 * summary["round_s"]["median"]
    per_client = num_bytes / crowd.NUM_ROUNDS / num_clients
    return Point(size, round_ms, bare_ms, per_client, 2 * payload_bytes, *peaks)


def _claim(points: Sequence[Point]) -> Claim:
    few, many = (next(point for point in points if point.size == size) for size in (NUM_CLIENTS, CLIENTS[-1]))
    growth = (many.round_ms / many.size) / (few.round_ms / few.size)
    text = f"from {few.size} to {many.size} clients the time per client and round grows by less than {MAX_GROWTH} x"
    return Claim(text, growth < MAX_GROWTH, f"{growth:.2f} x")


def _table(axis: str, points: Sequence[Point]) -> Table:
    rows = [[str(point.size), *map(shown_number, _cells(point))] for point in points]
    return Table(f"Growth with {axis}", [axis, *HEADER], rows)


def _cells(point: Point) -> list[float]:
    return [point.round_ms, point.bare_ms, point.round_ms / point.bare_ms, *point[3:]]


def _plots(axis: str, points: Sequence[Point]) -> list[Plot]:
    def curve(label: str, y: Callable[[Point], float]) -> Curve:
        return Curve(label, [(point.size, y(point)) for point in points])

    times = [curve("ours", lambda point: point.round_ms), curve("bare transport", lambda point: point.bare_ms)]
    memory = [
        curve("coordinator", lambda point: point.coordinator_mib),
        curve("aggregator", lambda point: point.aggregator_mib),
    ]
    return [
        Plot(f"Time of a round by {axis}", axis, "ms", times),
        Plot(f"Peak memory by {axis}", axis, "MiB", memory),
    ]
