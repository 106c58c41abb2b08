"""What is measured of whom: contenders take turns, so that other work on the machine meets all of them."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import psutil

from tests.benchmarks.peers import kills, traffic
from tests.benchmarks.peers.contender import Contender, Setting
from tests.benchmarks.peers.grpc import Grpc
from tests.benchmarks.peers.installed import Installed, installed
from tests.benchmarks.peers.measured import Measured, measure
from tests.benchmarks.peers.notebook import Notebook
from tests.benchmarks.peers.ours import Ours, OursInMemory, OursWithCurve
from tests.benchmarks.peers.payloads import PAYLOADS
from tests.benchmarks.peers.processes import PeerError
from tests.benchmarks.peers.superlink import SuperLink, SuperLinkOnDisk

CONTENDERS: tuple[type[Contender], ...] = (OursInMemory, Grpc, Ours, OursWithCurve, SuperLink)
SENDING: tuple[type[Contender], ...] = (Ours, OursWithCurve, Grpc, SuperLink)
"""Those whose bytes differ."""

KILLED: tuple[type[Contender], ...] = (*SENDING, SuperLinkOnDisk)
SLOW = (SuperLink.name, SuperLinkOnDisk.name)
PACKAGES = {Ours.name: "", Grpc.name: "flwr"}

CLIENTS = (2, 8, 20, 50)
PARTS = ("runs", "bytes", "idle", "kills", "sizes")

NUM_ROUNDS = {"10 x 50": 200, "100 x 50": 200, "100 x 500": 100, "1.3 M": 10}
SLOW_ROUNDS = 3
"""Of a SuperLink, whose rounds take seconds."""

TURNS = 3
MANY_CLIENTS = 50
"""From so many on a contender has one turn, as starting them takes long."""

PATIENCE_S = 180.0
"""Whoever has not closed a round by then does not survive so many clients; others have the rounds that they closed."""

MAX_SHARE = 0.7
"""Of the memory that is free, the most that a contender may be expected to take."""

FOREVER = 1_000_000

SMALLEST, LARGEST = "10 x 50", "1.3 M"
ENDS = (SMALLEST, LARGEST)

Measurement = tuple[str, Callable[[], msgspec.Struct]]
"""What it is kept under, and what makes it."""


@dataclass(frozen=True)
class Plan:
    """The sizes, and where what is found is kept."""

    notebook: Notebook
    clients: Sequence[int] = CLIENTS
    payloads: Sequence[str] = tuple(PAYLOADS)
    num_rounds: int | None = None
    parts: Sequence[str] = PARTS

    def measure(self) -> None:
        """Measure whatever is not there yet."""
        parts: dict[str, Iterable[Measurement]] = {
            "runs": self._runs(),
            "bytes": self._bytes(),
            "idle": ((f"idle {kind.name}", partial(_idle, kind)) for kind in SENDING),
            "kills": _kills(),
            "sizes": ((f"installed {name}", partial(_installed, package)) for name, package in PACKAGES.items()),
        }
        for part, measurements in parts.items():
            for key, measured in measurements if part in self.parts else ():
                self.notebook.keep(key, measured)

    def _runs(self) -> Iterator[Measurement]:
        for num, payload, turn in itertools.product(self.clients, self.payloads, range(TURNS)):
            for kind in CONTENDERS:
                if turn < num_turns(kind.name, num, payload):
                    yield run_key(kind.name, num, payload, turn), partial(self._run, kind, num, payload)

    def _run(self, kind: type[Contender], num_clients: int, payload: str) -> Measured:
        self._check_memory(kind, num_clients, payload)
        wanted = self.num_rounds or NUM_ROUNDS[payload]
        num_rounds = min(wanted, SLOW_ROUNDS) if kind.name in SLOW else wanted
        return measure(kind(Setting(num_clients, PAYLOADS[payload], num_rounds, num_clients)), PATIENCE_S)

    def _check_memory(self, kind: type[Contender], num_clients: int, payload: str) -> None:
        """Refuse what would not fit, by what fewer clients took."""
        fewer = [num for num in self.clients if num < num_clients]
        seen = [self.notebook.read(run_key(kind.name, num, payload, 0), Measured) for num in fewer]
        per_client = max((each.client_mib for each in seen if isinstance(each, Measured)), default=0.0)
        free_mib = psutil.virtual_memory().available / 2**20
        if num_clients * per_client > MAX_SHARE * free_mib:
            wanted = f"{num_clients} clients of {per_client:.0f} MiB"
            raise PeerError(f"{wanted} would take more than {MAX_SHARE:.0%} of the {free_mib:.0f} MiB that are free")

    def _bytes(self) -> Iterator[Measurement]:
        for payload, kind in itertools.product(self.payloads, SENDING):
            yield f"bytes {kind.name} {payload}", partial(_traffic, kind, payload)


def num_turns(name: str, num_clients: int, payload: str = SMALLEST) -> int:
    """Return how often a contender is run with so many clients."""
    return 1 if name in SLOW or num_clients >= MANY_CLIENTS or payload != SMALLEST else TURNS


def run_key(name: str, num_clients: int, payload: str, turn: int) -> str:
    """Return what a run is kept under."""
    return f"run {name} {num_clients} {payload} {turn}"


def _traffic(kind: type[Contender], payload: str) -> traffic.Traffic:
    few, many = (
        kind(Setting(2, PAYLOADS[payload], num_rounds, num_needed=2))
        for num_rounds in ((1, 3) if kind.name in SLOW else (5, 55))
    )
    return traffic.in_rounds(few, many, PATIENCE_S)


def _idle(kind: type[Contender]) -> traffic.Idle:
    return traffic.idle(kind(Setting(2, PAYLOADS[SMALLEST], num_rounds=1, num_needed=3)))


def _kills() -> Iterator[Measurement]:
    for kind in KILLED:
        yield f"server killed {kind.name}", partial(_kill_server, kind)
    for turn, kind in itertools.product(range(TURNS), SENDING):
        if turn < num_turns(kind.name, 3):
            yield f"client killed {kind.name} {turn}", partial(_kill_client, kind)


def _kill_server(kind: type[Contender]) -> kills.ServerKilled:
    return kills.kill_server(kind(Setting(2, PAYLOADS[SMALLEST], FOREVER, num_needed=2)))


def _kill_client(kind: type[Contender]) -> kills.ClientKilled:
    return kills.kill_client(kind(Setting(3, PAYLOADS[SMALLEST], FOREVER, 2, kills.DEADLINE_S)))


def _installed(package: str) -> Installed:
    with tempfile.TemporaryDirectory() as folder:
        return installed(package, Path(folder))
