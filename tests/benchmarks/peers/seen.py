"""What a plan's notebook holds, by contender."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TypeVar

import msgspec

from tests.benchmarks.peers.installed import Installed
from tests.benchmarks.peers.kills import ClientKilled, ServerKilled
from tests.benchmarks.peers.measured import Measured
from tests.benchmarks.peers.notebook import Missing
from tests.benchmarks.peers.plan import Plan, num_turns, run_key
from tests.benchmarks.peers.traffic import Idle, Traffic

T = TypeVar("T", bound=msgspec.Struct)


class Seen:
    """Reads it; what is not there is `Missing`, with the reason."""

    def __init__(self, plan: Plan) -> None:
        self.clients = plan.clients
        self.payloads = plan.payloads
        self._notebook = plan.notebook

    def run(self, name: str, num_clients: int, payload: str) -> Measured | Missing:
        """Return the medians over a contender's turns."""
        return self._turns(
            num_turns(name, num_clients, payload),
            lambda turn: run_key(name, num_clients, payload, turn),
            Measured,
            _medians,
        )

    def traffic(self, name: str, payload: str) -> Traffic | Missing:
        """Return the bytes of a round."""
        return self._notebook.read(f"bytes {name} {payload}", Traffic)

    def idle(self, name: str) -> Idle | Missing:
        """Return the bytes of a client that has nothing to do."""
        return self._notebook.read(f"idle {name}", Idle)

    def server_killed(self, name: str) -> ServerKilled | Missing:
        """Return what came after the server's end."""
        return self._notebook.read(f"server killed {name}", ServerKilled)

    def client_killed(self, name: str) -> ClientKilled | Missing:
        """Return what came after a client's end, of all turns that in which a round waited longest."""
        return self._turns(
            num_turns(name, 3),
            lambda turn: f"client killed {name} {turn}",
            ClientKilled,
            lambda all: max(all, key=_stall),
        )

    def installed(self, name: str) -> Installed | Missing:
        """Return what its package takes on disk."""
        return self._notebook.read(f"installed {name}", Installed)

    def _turns(self, num: int, key: Callable[[int], str], kind: type[T], join: Callable[[list[T]], T]) -> T | Missing:
        found = [self._notebook.read(key(turn), kind) for turn in range(num)]
        missing = next((each for each in found if isinstance(each, Missing)), None)
        return missing or join([each for each in found if not isinstance(each, Missing)])


def _medians(turns: list[Measured]) -> Measured:
    columns = zip(*map(msgspec.structs.astuple, turns), strict=True)
    medians = [None if None in column else statistics.median(column) for column in columns]
    return msgspec.convert(dict(zip(Measured.__struct_fields__, medians, strict=True)), Measured, strict=False)


def _stall(killed: ClientKilled) -> float:
    return killed.stall_s or float("inf")
