"""A run under fire: half-open connections and junk on its port, with and without encryption."""

from __future__ import annotations

import socket
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks import job
from tests.benchmarks.figure import Figure

NUM_CLIENTS = 4
NUM_ROUNDS = 3000
QUIET_S = 10.0
FLOOD_S = 30.0
NUM_HALF_OPEN = 500
HALF_OPEN_PER_BURST = 1
"""So many are opened anew with each burst, 50 a second: each is held for 10 s, less than a handshake may take."""
JUNK_PER_S = 10_000
BURST = 200
"""Junk messages on one connection."""

OLD_GREETING = b"\x01\x00"
JUNK = OLD_GREETING + b"\x06\x00hello" * BURST
"""By the first version of ZMTP, which has no handshake: without encryption these are messages."""

MAX_SLOWDOWN = 1.25
MAX_GROWTH_MIB = 32.0


@dataclass
class Siege:
    """Watches a run, keeps quiet for a while, then floods its port for `FLOOD_S`."""

    began: float = 0.0
    over: float = 0.0
    sent: int = 0
    rss_bytes: list[int] = field(default_factory=list)
    before_bytes: int = 0

    def watch(self, running: job.RunningJob) -> None:
        """Do it once, as soon as rounds go on."""
        if self.over or not running.rounds_closed():
            return
        coordinator = next(process for kind, process in running.processes() if kind == "coordinator")
        host, _, port = running.address.rpartition(":")
        time.sleep(QUIET_S)
        self.before_bytes = coordinator.memory_info().rss
        self.began = time.time()
        self._send_junk((host, int(port)), lambda: self.rss_bytes.append(coordinator.memory_info().rss))
        self.over = time.time()

    def _send_junk(self, address: tuple[str, int], measure: Callable[[], None]) -> None:
        """Send at the rate, burst by burst, each on a connection of its own, and hold others half open meanwhile."""
        started, bursts = time.monotonic(), 0
        half_open: deque[socket.socket] = deque(maxlen=NUM_HALF_OPEN)
        while (passed := time.monotonic() - started) < FLOOD_S:
            if bursts * BURST >= passed * JUNK_PER_S:
                time.sleep(0.005)
                continue
            bursts += 1
            if bursts % 20 == 0:
                measure()
            try:
                for _ in range(HALF_OPEN_PER_BURST):
                    half_open.append(socket.create_connection(address, timeout=1.0))
                with socket.create_connection(address, timeout=1.0) as connection:
                    connection.sendall(JUNK)
            except OSError:
                continue
        self.sent = bursts * BURST


def run(out: Path) -> list[Figure]:
    """Return how a run fares in quiet and under fire."""
    figures = []
    for security in ("curve", "none"):
        siege = Siege()
        settings = [*job.noop_settings(out, NUM_CLIENTS, NUM_ROUNDS, "disk"), f"transport.security={security}"]
        done = job.run(settings, out, watch=siege.watch)
        figures += _figures(security, siege, done)
    return figures


def _figures(security: str, siege: Siege, done: job.Job) -> list[Figure]:
    closed = done.rounds_closed_at()
    quiet = [1000 * round_s for at, round_s in closed if siege.began - QUIET_S < at < siege.began]
    fire = [1000 * round_s for at, round_s in closed if siege.began < at < siege.over]
    slowdown = statistics.median(fire) / statistics.median(quiet)
    growth = (max(siege.rss_bytes) - siege.before_bytes) / 2**20
    return [
        Figure.of(f"{security}: round in quiet", "ms", quiet),
        Figure.of(f"{security}: round under fire", "ms", fire),
        Figure.of(f"{security}: slowdown", "x", [slowdown], target=MAX_SLOWDOWN if security == "curve" else None),
        Figure.of(f"{security}: growth of the coordinator", "MiB", [growth], target=MAX_GROWTH_MIB),
        Figure.of(f"{security}: junk sent", "messages/s", [siege.sent / FLOOD_S]),
        Figure.of(f"{security}: lines in the log", "lines", [len((done.folder / "log.txt").read_text().splitlines())]),
    ]
