"""What measuring costs a client: time per task beside a round of the main job, and memory of its daemon."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from edge_client.device import profile
from edge_client.meter import Meter
from edge_client.sensors import find_sensors
from edge_client.sensors.energy import EnergyMeter
from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from wire.timing import Timing

MAX_SHARE_PERCENT = 1.0
MAX_MIB = 5.0

NUM_TASKS = 200
"""So many tasks are measured of which nothing else is done."""

NUM_PROCESSES = 5
"""So many daemons are looked at with and without what measures."""

REST = "import edge_client.config, edge_client.session, wire.encoding, wire.sockets.zeromq, wire.sockets.child, asyncio"
"""What a client's daemon has loaded in any case."""

ALL = "\n".join(
    (
        "from edge_client.device import profile",
        "from edge_client.meter import Meter",
        "from edge_client.sensors import find_sensors",
        "from edge_client.sensors.energy import EnergyMeter",
        "meter, device = Meter(lambda: None, EnergyMeter(find_sensors().sensors)), profile()",
    )
)
RSS = "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmRSS')))"


class Watt:
    """A sensor for machines that have none: it is read from a file, as all of them are."""

    name, counts, range_j = "a file", False, 0.0

    def __init__(self, path: Path) -> None:
        path.write_text("1000\n")
        self._path = path

    def read(self) -> float:
        """Return watts."""
        return float(self._path.read_text()) / 1e3


def run(out: Path) -> list[Figure]:
    """Return both, and what a join takes once."""
    sensors = [*find_sensors().sensors, *(Watt(out / f"rail{number}") for number in range(3))]
    took_s = asyncio.run(_tasks(EnergyMeter(sensors)))
    round_s = job.run([], out).summary["round_s"]["median"]
    joins = []
    for _ in range(7):
        started = time.perf_counter()
        profile()
        joins.append(1000 * (time.perf_counter() - started))
    kib = [_rss_kib(f"{REST}\n{ALL}\n{RSS}") - _rss_kib(f"{REST}\n{RSS}") for _ in range(NUM_PROCESSES)]
    return [
        Figure.of("measuring one task", "us", [1e6 * took for took in took_s]),
        Figure.of("the same as a share of a round", "%", [100 * t / round_s for t in took_s], target=MAX_SHARE_PERCENT),
        Figure.of("the device's profile, once", "ms", joins),
        Figure.of("memory of the daemon for it", "MiB", [size / 1024 for size in kib], target=MAX_MIB),
    ]


async def _tasks(energy: EnergyMeter) -> list[float]:
    """Return how long everything takes that is measured of a task of one second, in seconds."""
    meter, uplink = Meter(os.getpid, energy), [b"header", bytes(2060), Timing(1, 2, 3, 4).frame()]
    took = []
    for number in range(NUM_TASKS):
        started = time.perf_counter()
        meter.task_came(number, 0, float(number))
        energy.sample(number + 0.5)
        meter.uplink_made(number, 0, number + 1.0)
        meter.told(uplink, number + 1.0)
        took.append(time.perf_counter() - started)
    return took


def _rss_kib(code: str) -> int:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)
