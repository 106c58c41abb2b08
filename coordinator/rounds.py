"""The rounds of a run, as a pure state machine: events in, instructions out, and no clock of its own.

Theory of operation
-------------------
A run is rounds 1..num_rounds, a round is exchanges 0..num_exchanges-1, and after the last round comes one evaluation
exchange (index num_exchanges) that everybody ready takes part in and that cannot fail.

    WAITING      fewer than `min_available_clients` are ready, or than there can be without those who were left out;
                 the round opens when they are, or fails after `max_exchange_s` of waiting; at once where there can be
                 no quorum any more, as so many were left out and no others can come
    CONFIGURING  the server half is asked for the downlink
    COLLECTING   the cohort has its tasks; updates are accepted until nobody is waited for any more, or the exchange
                 must close
    AGGREGATING  the server half works on what was accepted
    RESTORING    the server half goes back to the state from the start of the failed round
    OVER         nothing more happens

An exchange must close `deadline_s` after it opened if a quorum (`min_clients`) has answered by then, or as soon as one
has. Below quorum progress puts the deadline off to `deadline_s` after it, but never beyond `max_exchange_s` after
opening; then the round is recorded as failed and everybody goes back to its start.

Nobody waits for a client that has been left out of the run, or whose update of this exchange was refused as
`malformed`: a corrected one is taken while the exchange is open, but need not come, and such a client is not asked for
it when it comes back, as it would hand over the same one each time. If nobody is left to wait for and there is no
quorum, the round fails at once. After a restart such a client is asked once more.

An update is refused, and the refusal says where the run is now, if it was accepted already (`duplicate`), is for
another round or exchange or for one that has closed (`stale`), or from somebody outside the cohort (`not_in_cohort`).
Of each client the last update that was accepted is known, also when its round is over: where its acknowledgement is
lost with the link, it comes again, and nobody was late. One that comes before its exchange is open again after a
restart is to be held until its client is asked (`not_open`).

The cohort of a round is those ready clients whose SHA-256 of (seed, round, client id) is smallest: nothing depends on
who came first.

After a restart (`Position`) everybody has yet to come back. A round in which an exchange was open or closed goes on
with its cohort as soon as the first client is there, or after `max_exchange_s`; its clock starts anew. The evaluation
is for all who are ready, and its end is the run's, of which all should hear. So whether it was open or not, it waits
until `min_available_clients` have been there once since the restart, and at most `max_exchange_s`. A run that is over,
but was killed before all had heard of it, waits `RETURN_S` at most for those who took part.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Any

from coordinator.round_events import (
    Accept,
    Aggregate,
    Aggregated,
    ClientGone,
    ClientReady,
    CompleteRound,
    Configure,
    Configured,
    Event,
    FailRound,
    Finish,
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
from wire.messages import RefusalCode

RETURN_S = 25.0
"""How long clients may take to come back and hear that the run is over; they try at least every 20 s."""

MAX_TOLD = 160
"""Characters of why an update was refused, in the reason of a failed round."""


class Phase(Enum):
    """Where the run is; see the theory of operation."""

    WAITING = auto()
    CONFIGURING = auto()
    COLLECTING = auto()
    AGGREGATING = auto()
    RESTORING = auto()
    OVER = auto()


class Rounds:
    """The state machine. `handle` takes one event and returns what is to be done, in order."""

    def __init__(self, rules: RoundRules, position: Position | None = None, left_out: Iterable[str] = ()) -> None:
        """Go on from a position, by default from the very beginning; `left_out` are those who were left out by then."""
        position = position or Position()
        self.rules = rules
        self.phase = Phase.WAITING
        self.round = min(position.next_round, rules.num_rounds)
        all_closed = position.next_round > rules.num_rounds
        self.exchange = rules.num_exchanges if all_closed else position.exchange or 0
        self.base = position.base
        self.failed_in_a_row = position.failed_in_a_row
        self.kept = dict(position.kept)
        self.ready: set[str] = set()
        self.cohort: frozenset[str] = position.cohort
        self.left_out = set(left_out)
        self.answered: set[str] = set(position.answered)
        self.accepted = position.accepted
        self.last_accepted = position.last_accepted(rules.num_exchanges)
        """By client, round and exchange of its last update that was accepted, also of a round that failed since."""
        self.refused: dict[str, str] = {}
        self._resumed = position.exchange is not None
        self._is_evaluated = position.is_evaluated
        self._is_told = position.is_told
        self._gathered = False
        self._waiting_since: float | None = None
        self._opened_at = 0.0
        self._progress_at = 0.0
        self._handlers: dict[type[Any], Callable[[Any], Iterable[Instruction]]] = {
            ClientReady: self._on_ready,
            ClientGone: self._on_gone,
            Configured: self._on_configured,
            UpdateArrived: self._on_update,
            MisfitArrived: self._on_misfit,
            ProgressMade: self._on_progress,
            Aggregated: self._on_aggregated,
            Restored: self._on_restored,
            Ticked: self._on_tick,
        }

    @property
    def evaluating(self) -> bool:
        """Whether this is the evaluation exchange after the last round."""
        return self.exchange == self.rules.num_exchanges

    @property
    def takes_from(self) -> tuple[int, int]:
        """Round and exchange from which on updates may be taken: behind the present exchange where that has closed."""
        has_closed = self.phase in (Phase.AGGREGATING, Phase.RESTORING, Phase.OVER)
        return self.round, self.exchange + has_closed

    def kept_of(self, client: str) -> int:
        """Return `Task.kept` of a client: the present round once an update of the client was accepted in it."""
        return self.round if client in self.accepted else self.kept.get(client, 0)

    def conclusion(self) -> Finish | None:
        """Return how the run ends if nothing more may be opened, None if it goes on."""
        if self.failed_in_a_row >= self.rules.max_failed_rounds:
            return Finish("failed", f"{self.failed_in_a_row} rounds failed in a row (max_failed_rounds)")
        if self.evaluating and self.base == 0:
            return Finish("failed", "no round was completed")
        return Finish("finished") if self._is_evaluated else None

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event and return the instructions that follow from it."""
        if self.phase is Phase.OVER:
            return []
        return list(self._handlers[type(event)](event))

    def refusal_of(self, client: str, round: int, exchange: int) -> Refuse | None:
        """Return why an update would be refused, None if it would be accepted."""
        is_present, is_open = (round, exchange) == (self.round, self.exchange), self.phase is Phase.COLLECTING
        if is_present and is_open and client in self.cohort and client not in self.answered:
            return None
        if self.last_accepted.get(client) == (round, exchange):
            return Refuse(client, RefusalCode.DUPLICATE, f"an update of round {round}, exchange {exchange} is in hand")
        here = f"the run is in round {self.round}, exchange {self.exchange}"
        if not is_present:
            return Refuse(client, RefusalCode.STALE, f"update of round {round}, exchange {exchange}, but {here}")
        if self.phase in (Phase.WAITING, Phase.CONFIGURING):
            return Refuse(client, RefusalCode.NOT_OPEN, f"{here}, which is not open yet")
        if not is_open:
            return Refuse(client, RefusalCode.STALE, f"{here}, which takes no updates now")
        return Refuse(client, RefusalCode.NOT_IN_COHORT, f"{here}, and its cohort is {sorted(self.cohort)}")

    def next_wakeup(self) -> float | None:
        """Return when the next `Ticked` is due, None if only events can move the run."""
        if self.phase is Phase.COLLECTING:
            return self._closes_at()
        if self.phase is Phase.WAITING and self._waiting_since is not None:
            return self._waiting_since + self._wait_s()
        return None

    def waits_until(self) -> float | None:
        """Return until when the present wait may last, whatever progress is made; None if no clock ends it."""
        if self.phase is Phase.COLLECTING and not self._has_quorum():
            return self._opened_at + self.rules.max_exchange_s
        return self.next_wakeup()

    @property
    def missing(self) -> frozenset[str]:
        """Whose updates the open exchange waits for."""
        return self.cohort - self.answered - self.left_out - self.refused.keys()

    def _on_ready(self, event: ClientReady) -> Iterable[Instruction]:
        self.ready.add(event.client)
        self._gathered = self._gathered or self._are_enough()
        if self.phase is Phase.WAITING:
            return self._open_round(event.at)
        if self.phase is Phase.COLLECTING and event.client in self.missing:
            return [SendTask(event.client)]
        return []

    def _on_gone(self, event: ClientGone) -> Iterable[Instruction]:
        self.ready.discard(event.client)
        if not event.for_good:
            return []
        self.left_out.add(event.client)
        self._gathered = self._gathered or self._are_enough()
        if self.phase is Phase.WAITING:
            return self._open_round(event.at)
        return self._close_if_due(event.at) if self.phase is Phase.COLLECTING else []

    def _open_round(self, at: float) -> list[Instruction]:
        """Draw the cohort and ask for the first downlink, once enough clients are ready."""
        if self._waiting_since is None:
            self._waiting_since = at
        self.phase = Phase.WAITING
        ended = self.conclusion()
        if ended is not None:
            return self._over(ended) if self._is_told or self._are_back() else []
        if not (self._gathered if self.evaluating else self._resumed or self._are_enough()):
            return []
        if not self._resumed:
            self.cohort = frozenset(self.ready if self.evaluating else self._draw_cohort())
        self._resumed = False
        self._waiting_since = None
        if self.evaluating and not self.cohort:
            return self._over(Finish("finished", "no client was there for the last evaluation"))
        return self._configure()

    @property
    def num_needed(self) -> int:
        """How many clients must be there: nobody waits for those who are left out, but for a quorum."""
        return max(self.rules.min_clients, min(self.rules.min_available_clients, self._num_possible))

    @property
    def needed_by(self) -> str:
        """The setting that wants so many."""
        return "min_clients" if self.num_needed > self._num_possible else "min_available_clients"

    @property
    def _num_possible(self) -> int:
        return self.rules.num_clients - len(self.left_out)

    def _are_enough(self) -> bool:
        return len(self.ready) >= self.num_needed

    def _are_back(self) -> bool:
        return self._are_enough() and self.ready >= self.kept.keys() - self.left_out

    def _draw_cohort(self) -> list[str]:
        def rank(client: str) -> bytes:
            return hashlib.sha256(f"{self.rules.seed}/{self.round}/{client}".encode()).digest()

        size = max(self.rules.min_clients, math.ceil(self.rules.fraction * len(self.ready) - 1e-9))
        return sorted(self.ready, key=rank)[:size]

    def _configure(self) -> list[Instruction]:
        self.phase = Phase.CONFIGURING
        return [Configure(self.round, self.exchange, tuple(sorted(self.cohort)))]

    def _on_configured(self, event: Configured) -> Iterable[Instruction]:
        self.phase = Phase.COLLECTING
        self._opened_at = self._progress_at = event.at
        tasks: list[Instruction] = [SendTask(client) for client in sorted((self.cohort - self.answered) & self.ready)]
        return tasks + self._close_if_due(event.at)

    def _on_update(self, event: UpdateArrived) -> Iterable[Instruction]:
        refusal = self.refusal_of(event.client, event.round, event.exchange)
        if refusal is not None:
            return [refusal]
        self.answered.add(event.client)
        self.last_accepted[event.client] = (event.round, event.exchange)
        self.refused.pop(event.client, None)
        return [Accept(event.client), *self._close_if_due(event.at)]

    def _on_misfit(self, event: MisfitArrived) -> Iterable[Instruction]:
        refusal = self.refusal_of(event.client, event.round, event.exchange)
        if refusal is not None:
            return [refusal]
        self.refused[event.client] = event.reason
        return [Refuse(event.client, RefusalCode.MALFORMED, event.reason), *self._close_if_due(event.at)]

    def _on_progress(self, event: ProgressMade) -> Iterable[Instruction]:
        if self.refusal_of(event.client, event.round, event.exchange) is None:
            self._progress_at = event.at
        return []

    def _on_tick(self, event: Ticked) -> Iterable[Instruction]:
        if self.phase is Phase.COLLECTING:
            return self._close_if_due(event.at)
        if self.phase is Phase.WAITING:
            return self._give_up_waiting(event.at)
        return []

    def _give_up_waiting(self, at: float) -> list[Instruction]:
        if self._waiting_since is None:
            self._waiting_since = at
        ended, is_due = self.conclusion(), at >= self._waiting_since + self._wait_s()
        if ended is not None:
            return self._over(ended) if self._is_told or is_due else []
        if not is_due:
            return []
        if self._resumed or self.evaluating:
            self._gathered = True
            return self._open_round(at)
        self._waiting_since = None
        return self._fail(f"{len(self.ready)} of {self.num_needed} clients ({self.needed_by})")

    def _wait_s(self) -> float:
        """Return how long clients are waited for."""
        if self.conclusion() is not None:
            return RETURN_S
        is_hopeless = not self.rules.others_may_come and self.num_needed > self._num_possible
        return 0.0 if is_hopeless and not self._resumed and not self.evaluating else self.rules.max_exchange_s

    def _closes_at(self) -> float:
        """Return when the exchange must close: absolute with a quorum, put off by progress below it."""
        if self._has_quorum():
            return self._opened_at + self.rules.deadline_s
        return min(self._progress_at + self.rules.deadline_s, self._opened_at + self.rules.max_exchange_s)

    def _has_quorum(self) -> bool:
        return self.evaluating or len(self.answered) >= self.rules.min_clients

    def _is_missing_some(self) -> bool:
        """Say whether an update is waited for; mostly the numbers tell that."""
        if len(self.answered) + len(self.left_out) + len(self.refused) < len(self.cohort):
            return True
        return bool(self.missing)

    def _close_if_due(self, at: float) -> list[Instruction]:
        if self._is_missing_some() and at < self._closes_at():
            return []
        if not self._has_quorum():
            return self._fail(self._lack())
        self.phase = Phase.AGGREGATING
        return [Aggregate(self.round, self.exchange, tuple(sorted(self.answered)))]

    def _lack(self) -> str:
        """Say why there is no quorum: who has not answered, and whose updates were refused, one of them with why."""
        quorum = f"{len(self.answered)} of {self.rules.min_clients} updates (min_clients)"
        told, refused = [f"exchange {self.exchange} ended with {quorum}"], sorted(self.refused)
        if silent := sorted(self.cohort - self.answered - self.refused.keys()):
            told.append(f"missing: {', '.join(silent)}")
        if refused:
            told.append(f"refused: {', '.join(refused)} ({refused[0]}: {self.refused[refused[0]]:.{MAX_TOLD}})")
        return "; ".join(told)

    def _on_aggregated(self, event: Aggregated) -> Iterable[Instruction]:
        if self.evaluating:
            return self._over(Finish("finished"))
        if event.failure:
            return self._fail(event.failure)
        if self.exchange + 1 < self.rules.num_exchanges:
            return self._next_exchange()
        return self._complete(event.at)

    def _next_exchange(self) -> list[Instruction]:
        self.exchange += 1
        self.accepted = frozenset(self.answered)
        self.answered, self.refused = set(), {}
        return self._configure()

    def _complete(self, at: float) -> list[Instruction]:
        accepted = tuple(sorted(self.answered))
        self.base = self.round
        self.failed_in_a_row = 0
        self.kept.update(dict.fromkeys(accepted, self.round))
        done = CompleteRound(self.round, accepted)
        return [done, *self._advance(at)]

    def _fail(self, reason: str) -> list[Instruction]:
        self.phase = Phase.RESTORING
        self.failed_in_a_row += 1
        return [FailRound(self.round, reason)]

    def _on_restored(self, event: Restored) -> Iterable[Instruction]:
        return self._advance(event.at)

    def _advance(self, at: float) -> list[Instruction]:
        """Go on to the next round, or after the last one to the evaluation exchange."""
        self.accepted, self.answered, self.refused = frozenset(), set(), {}
        if self.round == self.rules.num_rounds:
            self.exchange = self.rules.num_exchanges
        else:
            self.round += 1
            self.exchange = 0
        return self._open_round(at)

    def _over(self, finish: Finish) -> list[Instruction]:
        self.phase = Phase.OVER
        return [finish]
