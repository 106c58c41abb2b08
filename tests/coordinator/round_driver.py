"""What the tests of the rounds share: a run on a clock of plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator.clients.awaited import awaited
from coordinator.round_events import (
    Aggregated,
    ClientReady,
    Configured,
    Event,
    FailRound,
    Instruction,
    MisfitArrived,
    ProgressMade,
    Refuse,
    Restored,
    SendTask,
    Ticked,
    UpdateArrived,
)
from coordinator.round_rules import Position, RoundRules
from coordinator.rounds import Phase, Rounds

DEADLINE_S = 10.0
MAX_EXCHANGE_S = 30.0


def make_rules(**changes: Any) -> RoundRules:
    settings: dict[str, Any] = {
        "seed": 0,
        "num_rounds": 3,
        "num_exchanges": 1,
        "fraction": 1.0,
        "num_clients": changes.get("min_available_clients", 3),
        "min_clients": 2,
        "min_available_clients": 3,
        "deadline_s": DEADLINE_S,
        "max_exchange_s": MAX_EXCHANGE_S,
        "max_failed_rounds": 3,
    }
    return RoundRules(**{**settings, **changes})


class Guests:
    """Who is here of a run's clients, and why others are gone."""

    def __init__(self, here: str = "", **away: str) -> None:
        self.clients = list(here)
        self.away = away
        self.put_off: dict[str, str] = {}

    def heard_at(self) -> dict[str, float]:
        return dict.fromkeys(self.clients, 0.0)


class Run:
    """Rounds with a clock; every step returns the instructions of its last event."""

    def __init__(self, position: Position | None = None, left_out: str = "", **changes: Any) -> None:
        self.rounds = Rounds(make_rules(**changes), position, left_out)
        self.at = 0.0

    def feed(self, make: Callable[..., Event], *content: Any, **named: Any) -> list[Instruction]:
        return self.rounds.handle(make(*content, **named, at=self.at))

    def ready(self, clients: str) -> list[Instruction]:
        return [self.feed(ClientReady, client) for client in clients][-1]

    def open(self, clients: str = "abc") -> list[Instruction]:
        """Let these clients come and the first exchange open."""
        self.ready(clients)
        return self.feed(Configured)

    def update(self, client: str) -> list[Instruction]:
        """Let an update for the open exchange come."""
        return self.feed(UpdateArrived, client, self.rounds.round, self.rounds.exchange)

    def updates(self, clients: str) -> list[Instruction]:
        return [self.update(client) for client in clients][-1]

    def misfit(self, client: str, reason: str = "got 14") -> list[Instruction]:
        """Let an update for the open exchange come that cannot be right."""
        return self.feed(MisfitArrived, client, self.rounds.round, self.rounds.exchange, reason)

    def progress(self, client: str) -> list[Instruction]:
        return self.feed(ProgressMade, client, self.rounds.round, self.rounds.exchange)

    def tick(self, at: float) -> list[Instruction]:
        self.at = at
        return self.feed(Ticked)

    def complete(self, clients: str = "abc") -> list[Instruction]:
        """Take the open one-exchange round to its end and open what comes next."""
        self.updates(clients)
        if self.rounds.phase is Phase.COLLECTING:
            self.tick(self.at + DEADLINE_S)
        found = self.feed(Aggregated)
        self.feed(Configured)
        return found

    def fail(self) -> list[Instruction]:
        """Let the open exchange run out without a quorum and open what comes next."""
        assert self.tick(self.at + MAX_EXCHANGE_S)[0] == FailRound(self.rounds.round, self.failure(0, "a, b, c"))
        found = self.feed(Restored)
        self.feed(Configured)
        return found

    def waits_for(self, here: str = "", **away: str) -> str:
        """Return what people are told now."""
        return awaited(self.rounds, Guests(here, **away)).line(self.at)

    def failure(self, answered: int, missing: str) -> str:
        quorum = f"{answered} of {self.rounds.rules.min_clients} updates (min_clients)"
        return f"exchange {self.rounds.exchange} ended with {quorum}; missing: {missing}"


def tasks(clients: str) -> list[Instruction]:
    return [SendTask(client) for client in clients]


def refused(found: list[Instruction]) -> tuple[str, str]:
    assert len(found) == 1
    assert isinstance(found[0], Refuse)
    return found[0].code, found[0].reason
