"""What is compared: a server and clients of one framework, and what each must be able to do."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, NamedTuple

import numpy as np

from tests.benchmarks.peers import marks
from tests.benchmarks.peers.payloads import Payload
from tests.benchmarks.peers.processes import PeerError, Processes, accepts, free_ports

START_S = 60.0
"""How long a server may take until it listens."""

SERVER = "server"


@dataclass(frozen=True)
class Setting:
    """What all contenders are given alike.

    Attributes:
        num_clients: of the whole federation.
        payload: what travels in a round, both ways.
        num_rounds: after so many the run is over.
        num_needed: so many clients must be there for a round to begin.
        deadline_s: a round waits no longer than this for those that have not answered.
    """

    num_clients: int
    payload: Payload
    num_rounds: int
    num_needed: int
    deadline_s: float = 300.0


class Rounds(NamedTuple):
    """How long rounds took, and in the median coordination, where that is told from the clients' own work."""

    num: int
    median_ms: float
    p95_ms: float
    coordination_ms: float | None = None


class Contender(ABC):
    """One of them. None of its processes outlives the `with` that it is entered by; its folder does after an error."""

    name: ClassVar[str]

    def __init__(self, setting: Setting) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="protoedge-peer-"))
        self.marks_path = self.folder / "marks"
        self.setting = setting
        (self.port,) = free_ports(1)
        self.processes = Processes(self.folder, self.variables())

    def __enter__(self) -> Contender:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.processes.close()
        if error is None:
            shutil.rmtree(self.folder)

    def start(self, port: int = 0) -> None:
        """Start everything; clients connect to this port instead of the server's own."""
        self.start_server()
        self.processes.until(lambda: accepts(self.port), "a server that listens", START_S, SERVER)
        for index in range(self.setting.num_clients):
            self.start_client(index, port or self.port)
        self.start_rounds()

    def variables(self) -> dict[str, str]:
        """Return the environment variables of its processes, beside those that are there."""
        return {}

    @abstractmethod
    def start_server(self) -> None:
        """Start the server's side, under the name `SERVER`."""

    @abstractmethod
    def start_client(self, index: int, port: int) -> None:
        """Start the client of an index, under the name `client_name` has for it."""

    def start_rounds(self) -> None:  # noqa: B027 - most begin by themselves
        """Have rounds begin as soon as enough clients are there."""

    def restart_server(self) -> None:
        """Start the server again after it was killed, so that it goes on if it can."""
        self.start_server()

    def num_closed(self) -> int:
        """Return of how many rounds all results have been there so far."""
        return marks.count(self.marks_path)

    def rounds(self) -> Rounds:
        """Return how long they took, when all that were wanted are over or nobody waits any longer.

        Raises:
            PeerError: a round lacks results.
        """
        noted = marks.read(self.marks_path)
        fewest = min((mark.num_results for mark in noted), default=0)
        if fewest < self.setting.num_clients:
            raise PeerError(f"expected results of {self.setting.num_clients} clients in every round, got {fewest}")
        took_ms = [1000 * took_s for took_s in marks.took_s(noted)]
        return Rounds(len(took_ms), statistics.median(took_ms), float(np.percentile(took_ms, 95)))


def client_name(index: int) -> str:
    """Return the name of a client."""
    return f"client-{index:02d}"
