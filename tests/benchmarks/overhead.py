"""What one uplink of 10 x 50 float32 costs beside its payload, and how long the encoding takes."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from tests.benchmarks.plugins.noop import Prototypes, some_prototypes
from tests.integration.processes import booked
from wire.encoding import decode, encode, pack, unpack
from wire.messages import Task, Update

NUM_CLIENTS = 4
NUM_ROUNDS = 30
MAX_OVERHEAD_BYTES = 80
CALLS = 500


def run(out: Path) -> list[Figure]:
    """Return encoded bytes without the payload as really sent, and times per call."""
    done = job.run(job.noop_settings(out, NUM_CLIENTS, NUM_ROUNDS, "memory"), out)
    sent = [line["up"] for line in booked(done.folder) if line["kind"] == "client" and line["exchange"] == "prototypes"]
    extra = [up["encoded_bytes"] - up["payload_bytes"] for up in sent]
    return [
        Figure.of("uplink overhead", "bytes", extra, target=MAX_OVERHEAD_BYTES + 1),
        Figure.of("uplink payload", "bytes", [up["payload_bytes"] for up in sent]),
        *_times(),
    ]


def _times() -> list[Figure]:
    payload = some_prototypes().to_payload("f32")
    packed = pack(payload)
    update, task = Update(1000, 30, 0), Task(1000, 30, 0, 29, 29)
    frames = [bytes(frame) for frame in encode(update, packed)]
    return [
        _time("pack", lambda: pack(payload)),
        _time("encode an uplink", lambda: encode(update, packed)),
        _time("encode a downlink", lambda: encode(task, packed)),
        _time("decode an uplink", lambda: decode(frames)),
        _time("unpack", lambda: unpack(packed)),
        _time("check against the record", lambda: Prototypes.from_payload(payload, {"C": 10, "D": 50, "K": 10})),
    ]


def _time(name: str, call: Callable[[], object]) -> Figure:
    return Figure.of(name, "us", [1e6 * took / CALLS for took in timeit.repeat(call, number=CALLS, repeat=7)])
