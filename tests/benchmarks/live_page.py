"""What the live page costs the coordinator: 20 clients that compute nothing, with and without 5 who look at it."""

from __future__ import annotations

import re
import threading
import urllib.request
from importlib.util import find_spec
from pathlib import Path

from coordinator.dashboard.process import NEEDED
from tests.benchmarks import job
from tests.benchmarks.figure import Figure, Skipped

NUM_CLIENTS, NUM_ROUNDS, NUM_VIEWERS = 20, 400, 5

MAX_ADDED_MS = 5.0
"""The bound for what the median coordination time may gain."""


class Viewers:
    """They stay on the page and fetch its content whenever they are told to, as a browser does."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._threads: list[threading.Thread] = []
        self.num_fetched = 0

    def look(self, running: job.RunningJob) -> None:
        """Begin to look once the run has said where, and goes on."""
        found = re.search(r"live page: (\S+)", self._log.read_text())
        if found and running.rounds_closed() and not self._threads:
            self._threads = [threading.Thread(target=self._stay, args=(found[1],)) for _ in range(NUM_VIEWERS)]
            for thread in self._threads:
                thread.start()

    def leave(self) -> None:
        """Wait until all have left, as they do when the run is over."""
        for thread in self._threads:
            thread.join(10)

    def _stay(self, url: str) -> None:
        with urllib.request.urlopen(f"{url}events", timeout=60) as events:
            for line in events:
                if line.strip() == b'data: "change"':
                    with urllib.request.urlopen(f"{url}body", timeout=60) as body:
                        body.read()
                    self.num_fetched += 1


def run(out: Path) -> list[Figure]:
    """Return the coordination times, by turns without and with viewers, and what these add."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise Skipped(f"needs {', '.join(missing)}")
    settings = job.noop_settings(out, NUM_CLIENTS, NUM_ROUNDS, "disk")
    alone, viewed, num_fetched = [], [], 0
    for _ in range(3):
        alone.append(1000 * job.run(settings, out).summary["coordination_s"]["median"])
        viewers = Viewers(out / "loopback.log")
        live = [*settings, "report.dashboard=127.0.0.1:0"]
        viewed.append(1000 * job.run(live, out, viewers.look).summary["coordination_s"]["median"])
        viewers.leave()
        num_fetched += viewers.num_fetched
    added = [with_viewers - without for without, with_viewers in zip(alone, viewed, strict=True)]
    return [
        Figure.of("median coordination without a live page", "ms", alone),
        Figure.of(f"median coordination with {NUM_VIEWERS} viewers", "ms", viewed),
        Figure.of("added by viewers", "ms", added, target=MAX_ADDED_MS),
        Figure.of("times the page was fetched", "", [num_fetched]),
    ]
