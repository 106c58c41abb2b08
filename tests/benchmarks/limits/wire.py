"""Bytes that a round puts on the wire for each client, beside the least that a transport can.

All that passes a loopback that nothing else uses is counted: IP packets with their headers, also those that do no more
than acknowledge others. The least is the payload in one frame each way. The bare transport sends what we do: headers
and a timing in the same frame, and an acknowledgement of each uplink. Of two runs the shorter is taken off the longer,
so that handshakes do not count. A packet of the loopback holds 64 KiB; where it holds 1,500 bytes, each 1,448 more take
52.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.benchmarks import job
from tests.benchmarks.figure import Figure, Skipped
from tests.benchmarks.limits.transport import PROTOTYPES, Shape, transport_ms
from tests.benchmarks.plugins.noop import some_prototypes
from tests.chaos.netns import loopback_traffic, own_loopback

NUM_CLIENTS = 4
FEW_ROUNDS, MANY_ROUNDS = 20, 120

MAX_BESIDE_BYTES = 400.0
"""Beside the payload, both ways together, with CURVE."""

PAYLOAD_BYTES = some_prototypes().to_payload().sizes.payload_bytes
LEAST = Shape([PAYLOAD_BYTES], [PAYLOAD_BYTES], [])

MTU = 65536


def run(out: Path) -> list[Figure]:
    """Return the bytes beside the payload, both ways together.

    Raises:
        Skipped: a loopback of one's own is not allowed here.
    """
    try:
        with own_loopback(MTU):
            return [figure for is_encrypted in (False, True) for figure in _beside(out, is_encrypted)]
    except pytest.skip.Exception as reason:
        raise Skipped(str(reason)) from None


def _beside(out: Path, is_encrypted: bool) -> list[Figure]:
    def bare(shape: Shape) -> Callable[[int], object]:
        return lambda num_rounds: transport_ms(NUM_CLIENTS, shape, is_encrypted, num_rounds)

    def ours(num_rounds: int) -> object:
        settings = job.noop_settings(out, NUM_CLIENTS, num_rounds, "disk")
        return job.run([*settings, f"transport.security={'curve' if is_encrypted else 'none'}"], out)

    name = "CURVE" if is_encrypted else "plain"
    limits = _per_round(bare(LEAST))
    figures = _figures(f"{name}: the least", limits, None)
    figures += _figures(f"{name}: bare transport with our messages", _per_round(bare(PROTOTYPES)), limits)
    return figures + _figures(f"{name}: ours", _per_round(ours), limits, MAX_BESIDE_BYTES if is_encrypted else None)


def _per_round(run: Callable[[int], object]) -> tuple[float, float]:
    """Return what a round adds for each client: bytes beside the payload, and packets."""
    counted = [loopback_traffic()]
    for num_rounds in (FEW_ROUNDS, MANY_ROUNDS):
        run(num_rounds)
        counted.append(loopback_traffic())
    added = [many - 2 * few + start for start, few, many in zip(*counted, strict=True)]
    num_bytes, num_packets = (count / (MANY_ROUNDS - FEW_ROUNDS) / NUM_CLIENTS for count in added)
    return num_bytes - 2 * PAYLOAD_BYTES, num_packets


def _figures(
    name: str, found: tuple[float, float], limits: tuple[float, float] | None, target: float | None = None
) -> list[Figure]:
    about = [{"limit": limit, "limit_name": "the least"} if limit else {} for limit in limits or (None, None)]
    return [
        Figure.of(f"{name}: beside the payload", "bytes", [found[0]], target=target, **about[0]),
        Figure.of(f"{name}", "packets", [found[1]], **about[1]),
    ]
