"""What the rounds of a run go by: its settings, and where it goes on."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class RoundRules(msgspec.Struct, frozen=True):
    """The settings that decide when an exchange closes; times in seconds.

    `others_may_come`: whether anybody but the `num_clients` can take the place of one who was left out.
    """

    seed: int
    num_rounds: int
    num_exchanges: int
    fraction: float
    num_clients: int
    min_clients: int
    min_available_clients: int
    deadline_s: float
    max_exchange_s: float
    max_failed_rounds: int
    others_may_come: bool = True


class Position(msgspec.Struct, frozen=True):
    """Where a run goes on: after a restart, what the store says; by default the very beginning.

    Attributes:
        next_round: the round in hand or to be opened; one more than there are when all are closed.
        base: the last completed round.
        failed_in_a_row: failed rounds since then.
        kept: by client, the last completed round whose final update of it was accepted.
        exchange: the one that is open, or to be opened for the same cohort; None between rounds.
        cohort: who takes part in it.
        answered: whose updates it has.
        accepted: whose updates the exchange before it had, in the same round.
        is_evaluated: whether the evaluation is closed.
        is_told: whether nobody waits to hear of the end of a run that is over.
    """

    next_round: int = 1
    base: int = 0
    failed_in_a_row: int = 0
    kept: Mapping[str, int] = msgspec.field(default_factory=dict)
    exchange: int | None = None
    cohort: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()
    accepted: frozenset[str] = frozenset()
    is_evaluated: bool = False
    is_told: bool = True

    def kept_of(self, client: str) -> int:
        """Return `Task.kept` of a client: the present round once an update of the client was accepted in it."""
        return self.next_round if client in self.accepted else self.kept.get(client, 0)

    def last_accepted(self, num_exchanges: int) -> dict[str, tuple[int, int]]:
        """Return by client round and exchange of its last update that was accepted, as far as that is known."""
        found = {client: (round, num_exchanges - 1) for client, round in self.kept.items()}
        if self.exchange is not None:
            found.update(dict.fromkeys(self.accepted, (self.next_round, self.exchange - 1)))
            found.update(dict.fromkeys(self.answered, (self.next_round, self.exchange)))
        return found
