"""The rounds of a run under any order of events: what is recorded, who is asked, and that it ends."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from coordinator import round_events as events
from coordinator.round_rules import Position, RoundRules
from coordinator.rounds import Phase, Rounds

CLIENTS = "abcde"
DEADLINE_S = 10.0
MAX_EXCHANGE_S = 25.0

clients = st.sampled_from(CLIENTS)
shifts = st.sampled_from([0, 0, 0, 0, -1, 1])


@st.composite
def rules(draw: st.DrawFn) -> RoundRules:
    available = draw(st.integers(1, 4))
    return RoundRules(
        seed=draw(st.integers(0, 9)),
        num_rounds=draw(st.integers(1, 4)),
        num_exchanges=draw(st.integers(1, 3)),
        fraction=draw(st.sampled_from([0.01, 0.5, 1.0])),
        num_clients=len(CLIENTS),
        min_clients=draw(st.integers(1, available)),
        min_available_clients=available,
        deadline_s=DEADLINE_S,
        max_exchange_s=MAX_EXCHANGE_S,
        max_failed_rounds=draw(st.integers(1, 3)),
    )


class RoundsMachine(RuleBasedStateMachine):
    """A coordinator around `Rounds`, which may be killed and go on from what its store knows."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0.0
        self.owed: events.Event | None = None
        self.recorded: list[str] = []
        self.accepted: dict[tuple[int, int], set[str]] = {}
        self.misfits: set[str] = set()
        self.kept: dict[str, int] = {}
        self.opened: set[tuple[int, int]] = set()
        self.num_closed = 0
        self.opened_at = 0.0
        self.finished: events.Finish | None = None

    @initialize(drawn=rules(), steps=st.lists(st.sampled_from([0, 2, 5, 5, 5]), max_size=25))
    def start(self, drawn: RoundRules, steps: list[int]) -> None:
        """Begin, and let clients come and answer, as many at a time as each step says."""
        self.settings = drawn
        self.rounds = Rounds(drawn)
        self.feed(events.Ticked(self.at))
        for num_clients in steps:
            self.go_on(num_clients)

    @rule(num_clients=st.integers(0, 5))
    def go_on(self, num_clients: int) -> None:
        """What the run waits for happens: the server half answers, or clients come or answer, or nobody does."""
        if self.owed is not None:
            self.answer("")
        elif num_clients == 0:
            self.run_out()
        elif self.rounds.phase is Phase.COLLECTING:
            for client in sorted(self.rounds.cohort - self.rounds.answered)[:num_clients]:
                self.update(client, 0, 0)
        else:
            for client in CLIENTS[-num_clients:]:
                self.come(client)

    # What may happen

    @rule(seconds=st.sampled_from([0.5, 4.0, 9.0, DEADLINE_S, MAX_EXCHANGE_S]))
    def pass_time(self, seconds: float) -> None:
        self.at += seconds

    @rule()
    def tick(self) -> None:
        was_due = self.rounds.next_wakeup()
        before = (self.rounds.phase, self.rounds.round, self.rounds.exchange)
        self.feed(events.Ticked(self.at))
        if was_due is not None and self.at >= was_due:
            assert (self.rounds.phase, self.rounds.round, self.rounds.exchange) != before

    @precondition(lambda self: self.rounds.phase is Phase.COLLECTING)
    @rule()
    def train_slowly(self) -> None:
        """Nobody is done for long, but all report progress."""
        for _ in range(2):
            self.at += DEADLINE_S - 1.0
            for client in self.rounds.cohort:
                self.progress(client, 0)

    def run_out(self) -> None:
        """Nothing comes for longer than the run waits."""
        self.at += MAX_EXCHANGE_S
        self.tick()

    @rule(client=clients)
    def come(self, client: str) -> None:
        self.feed(events.ClientReady(client, self.at))

    @rule(client=clients)
    def go(self, client: str) -> None:
        self.feed(events.ClientGone(client, self.at))

    @rule(client=clients, round_shift=shifts, exchange_shift=shifts)
    def update(self, client: str, round_shift: int, exchange_shift: int) -> None:
        """A client sends an update, be it wanted or not."""
        where = (self.rounds.round + round_shift, self.rounds.exchange + exchange_shift)
        is_current = where == (self.rounds.round, self.rounds.exchange)
        was_accepted = client in self.accepted.get(where, ())
        is_new = is_current and not was_accepted
        is_wanted = is_new and self.rounds.phase is Phase.COLLECTING and client in self.rounds.cohort
        found = self.feed(events.UpdateArrived(client, *where, self.at))
        if self.finished is None:
            assert isinstance(found[0], events.Accept if is_wanted else events.Refuse)
        for instruction in found:
            if isinstance(instruction, events.Refuse):
                assert was_accepted if instruction.code == "duplicate" else is_new or not is_current

    @rule(client=clients, round_shift=shifts)
    def misfit(self, client: str, round_shift: int) -> None:
        """A client sends an update that cannot be right, be it wanted or not."""
        where = (self.rounds.round + round_shift, self.rounds.exchange)
        is_wanted = self.rounds.refusal_of(client, *where) is None
        if is_wanted:
            self.misfits.add(client)
        found = self.feed(events.MisfitArrived(client, *where, "got 14", self.at))
        if self.finished is None:
            assert isinstance(found[0], events.Refuse)
            assert (found[0].code == "malformed") == is_wanted

    @rule(client=clients, round_shift=shifts)
    def progress(self, client: str, round_shift: int) -> None:
        where = (self.rounds.round + round_shift, self.rounds.exchange)
        assert self.feed(events.ProgressMade(client, *where, self.at)) == []

    @precondition(lambda self: self.owed)
    @rule(failure=st.sampled_from(["", "", "", "total weight 0"]))
    def answer(self, failure: str) -> None:
        """The server half, or the store, is done with what it was asked."""
        assert self.owed is not None
        event, self.owed = replace(self.owed, at=self.at), None
        if isinstance(event, events.Configured):
            self.opened_at = self.at
            self.opened.add((self.rounds.round, self.rounds.exchange))
        if isinstance(event, events.Aggregated):
            may_fail = not self.rounds.evaluating
            found = self.feed(replace(event, failure=failure))
            assert isinstance(found[0], events.FailRound) == (may_fail and failure != "")
        else:
            self.feed(event)

    @precondition(lambda self: self.finished is None)
    @rule()
    def restart(self) -> None:
        """The coordinator is killed at any moment, and goes on from its store."""
        if isinstance(self.owed, events.Aggregated):
            self.num_closed -= 1
        self.owed = None
        self.misfits = set()
        self.rounds = Rounds(self.settings, self.stored_position())
        self.feed(events.Ticked(self.at))

    def stored_position(self) -> Position:
        """Where the run stands in the store: an exchange is there from its opening to its close or its round's."""
        before = self.rounds
        where = (before.round, before.exchange)
        position = Position(len(self.recorded) + 1, before.base, before.failed_in_a_row, before.kept)
        if before.phase is Phase.RESTORING or (where not in self.opened and before.exchange in (0, self.end)):
            return position
        held = frozenset(self.accepted.get(where, set())) if where in self.opened else frozenset()
        return replace(position, next_round=before.round, exchange=before.exchange, cohort=before.cohort, answered=held)

    @property
    def end(self) -> int:
        """The index of the evaluation."""
        return self.settings.num_exchanges

    # What must hold

    @invariant()
    def an_open_exchange_has_an_end(self) -> None:
        if self.rounds.phase is Phase.COLLECTING:
            closes_at = self.rounds.next_wakeup()
            assert closes_at is not None
            assert closes_at <= self.opened_at + MAX_EXCHANGE_S
            answered = self.accepted.get((self.rounds.round, self.rounds.exchange), set())
            if self.rounds.evaluating or len(answered) >= self.settings.min_clients:
                assert closes_at == self.opened_at + DEADLINE_S

    @invariant()
    def an_open_exchange_waits_for_somebody_who_has_said_nothing_that_stands(self) -> None:
        if self.rounds.phase is Phase.COLLECTING:
            answered = self.accepted.get((self.rounds.round, self.rounds.exchange), set())
            assert self.rounds.missing == self.rounds.cohort - answered - self.misfits
            assert self.rounds.missing

    @invariant()
    def somebody_moves_the_run(self) -> None:
        if self.finished is None:
            assert self.owed is not None or self.rounds.next_wakeup() is not None
        else:
            assert self.rounds.phase is Phase.OVER
            assert self.rounds.next_wakeup() is None

    def feed(self, event: events.Event) -> Sequence[events.Instruction]:
        found = self.rounds.handle(event)
        assert not found or self.finished is None
        for instruction in found:
            self.check(instruction)
        assert self.rounds.kept == self.kept
        return found

    def check(self, instruction: events.Instruction) -> None:
        """Note one instruction as the coordinator would, and check that it may come now."""
        where = (self.rounds.round, self.rounds.exchange)
        if isinstance(instruction, events.Configure):
            self.misfits = set()
            self.check_configure(instruction)
            self.owe(events.Configured(self.at))
        elif isinstance(instruction, events.Accept):
            assert instruction.client in self.rounds.cohort
            assert instruction.client not in self.accepted.setdefault(where, set())
            self.accepted[where].add(instruction.client)
            self.misfits.discard(instruction.client)
        elif isinstance(instruction, events.SendTask):
            assert instruction.client in self.rounds.cohort & self.rounds.ready
            assert instruction.client not in self.accepted.get(where, set()) | self.misfits
        elif isinstance(instruction, events.Aggregate):
            self.check_aggregate(instruction)
            self.owe(events.Aggregated(self.at))
        elif isinstance(instruction, events.CompleteRound):
            self.record(instruction.round, "completed")
            assert set(instruction.accepted) == self.accepted[instruction.round, self.settings.num_exchanges - 1]
            self.kept.update(dict.fromkeys(instruction.accepted, instruction.round))
        elif isinstance(instruction, events.FailRound):
            self.record(instruction.round, "failed")
            self.owe(events.Restored(self.at))
        elif isinstance(instruction, events.Finish):
            self.check_finish(instruction)

    def check_configure(self, instruction: events.Configure) -> None:
        evaluates = instruction.exchange == self.settings.num_exchanges
        assert evaluates or instruction.exchange == self.num_closed
        assert instruction.round == len(self.recorded) + (0 if evaluates else 1)
        assert instruction.cohort == tuple(sorted(self.rounds.cohort))
        is_new = (instruction.round, instruction.exchange) not in self.accepted
        if instruction.exchange == 0 and is_new and set(instruction.cohort) <= self.rounds.ready:
            assert instruction.cohort == self.drawn_in_another_order(instruction.round)

    def drawn_in_another_order(self, round: int) -> tuple[str, ...]:
        """The cohort of the round if the same clients had come in the opposite order."""
        ready = sorted(self.rounds.ready, reverse=True)
        twin = Rounds(replace(self.settings, min_available_clients=len(ready)), Position(round))
        found = [twin.handle(events.ClientReady(client, 0.0)) for client in ready][-1]
        assert isinstance(found[0], events.Configure)
        return found[0].cohort

    def check_aggregate(self, instruction: events.Aggregate) -> None:
        where = (instruction.round, instruction.exchange)
        assert list(instruction.clients) == sorted(self.accepted.get(where, set()))
        self.num_closed += 1
        if instruction.exchange < self.settings.num_exchanges:
            assert len(instruction.clients) >= self.settings.min_clients

    def check_finish(self, instruction: events.Finish) -> None:
        gave_up = self.recorded[-self.settings.max_failed_rounds :] == ["failed"] * self.settings.max_failed_rounds
        failed = gave_up or self.rounds.base == 0
        assert instruction.outcome == ("failed" if failed else "finished")
        assert gave_up or len(self.recorded) == self.settings.num_rounds
        self.finished = instruction

    def record(self, round: int, status: str) -> None:
        assert round == len(self.recorded) + 1
        self.recorded.append(status)
        self.num_closed = 0

    def owe(self, event: events.Event) -> None:
        assert self.owed is None
        self.owed = event

    def teardown(self) -> None:
        """Every run ends when time is driven on, whoever stays away."""
        if not hasattr(self, "rounds"):
            return
        for _ in range(3 * (self.settings.num_rounds + 1) * (self.settings.num_exchanges + 2)):
            if self.owed is not None:
                self.answer("")
            elif (due := self.rounds.next_wakeup()) is not None:
                self.at = max(self.at, due)
                self.tick()
        assert self.finished is not None


TestRounds = RoundsMachine.TestCase
TestRounds.settings = settings(max_examples=100, stateful_step_count=50)
