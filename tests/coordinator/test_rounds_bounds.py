"""What ends an exchange: its quorum, its deadline, failure, and waiting that is bounded."""

from __future__ import annotations

import pytest

from coordinator.round_events import (
    Accept,
    Aggregate,
    Aggregated,
    ClientGone,
    CompleteRound,
    Configure,
    Configured,
    FailRound,
    Finish,
    ProgressMade,
    Restored,
    SendTask,
)
from coordinator.round_rules import Position
from coordinator.rounds import RETURN_S, Phase
from tests.coordinator.round_driver import DEADLINE_S, MAX_EXCHANGE_S, Run, refused, tasks


def test_with_a_quorum_the_deadline_is_absolute() -> None:
    run = Run()
    run.open()
    run.at = 1.0
    run.updates("ab")
    run.at = 9.0
    run.progress("c")
    assert run.rounds.next_wakeup() == DEADLINE_S
    assert run.tick(DEADLINE_S - 0.001) == []
    assert run.tick(DEADLINE_S) == [Aggregate(1, 0, ("a", "b"))]


def test_below_the_quorum_progress_puts_the_deadline_off() -> None:
    run = Run()
    run.open()
    run.update("a")
    assert run.rounds.next_wakeup() == DEADLINE_S
    run.at = 8.0
    assert run.progress("b") == []
    assert run.rounds.next_wakeup() == 8.0 + DEADLINE_S
    assert run.tick(8.0 + DEADLINE_S - 0.001) == []
    assert run.tick(8.0 + DEADLINE_S) == [FailRound(1, run.failure(1, "b, c"))]


def test_no_progress_puts_the_deadline_beyond_max_exchange_s() -> None:
    run = Run()
    run.open()
    for at in (9.0, 18.0, 27.0, 29.9):
        assert run.tick(at) == run.progress("b") == []
    assert run.rounds.next_wakeup() == MAX_EXCHANGE_S
    assert run.tick(MAX_EXCHANGE_S) == [FailRound(1, run.failure(0, "a, b, c"))]


def test_a_quorum_that_comes_after_the_deadline_closes_at_once() -> None:
    run = Run()
    run.open()
    run.at = 9.0
    run.progress("a")
    run.at = 12.0
    assert run.update("b") == [Accept("b")]
    assert run.update("a") == [Accept("a"), Aggregate(1, 0, ("a", "b"))]


@pytest.mark.parametrize(
    ("client", "round", "exchange"),
    [("a", 1, 0), ("d", 1, 0), ("b", 2, 0), ("b", 1, 1)],
    ids=["answered", "outside the cohort", "another round", "another exchange"],
)
def test_progress_of_what_is_not_waited_for_puts_nothing_off(client: str, round: int, exchange: int) -> None:
    run = Run()
    run.open()
    run.update("a")
    run.ready("d")
    run.at = 5.0
    assert run.feed(ProgressMade, client, round, exchange) == []
    assert run.rounds.next_wakeup() == DEADLINE_S


def test_the_clock_of_an_exchange_starts_when_it_opens() -> None:
    run = Run()
    run.ready("abc")
    run.at = 100.0
    run.feed(Configured)
    assert run.rounds.next_wakeup() == 100.0 + DEADLINE_S


# Failed rounds


def test_a_failed_round_is_restored_and_the_run_goes_on() -> None:
    run = Run()
    run.open()
    run.update("a")
    assert run.tick(DEADLINE_S) == [FailRound(1, run.failure(1, "b, c"))]
    assert (run.rounds.phase, run.rounds.next_wakeup()) == (Phase.RESTORING, None)
    assert run.feed(Restored) == [Configure(2, 0, ("a", "b", "c"))]
    assert run.feed(Configured) == tasks("abc")
    assert (run.rounds.kept, run.rounds.base, run.rounds.failed_in_a_row) == ({}, 0, 1)


def test_updates_of_which_nothing_can_be_made_fail_the_round() -> None:
    run = Run()
    run.open()
    run.updates("abc")
    assert run.feed(Aggregated, failure="the weights of all updates are 0") == [
        FailRound(1, "the weights of all updates are 0")
    ]
    assert run.feed(Restored) == [Configure(2, 0, ("a", "b", "c"))]
    assert (run.rounds.kept, run.rounds.base) == ({}, 0)


def test_too_many_failed_rounds_in_a_row_end_the_run() -> None:
    run = Run(num_rounds=9)
    run.open()
    run.fail()
    run.fail()
    assert run.fail() == [Finish("failed", "3 rounds failed in a row (max_failed_rounds)")]
    assert run.rounds.phase is Phase.OVER


def test_a_completed_round_in_between_resets_the_count() -> None:
    run = Run(num_rounds=9)
    run.open()
    run.fail()
    run.fail()
    run.complete()
    assert run.rounds.failed_in_a_row == 0
    run.fail()
    run.fail()
    assert run.rounds.round == 6
    assert isinstance(run.fail()[0], Finish)


def test_after_a_failed_last_round_comes_the_evaluation() -> None:
    run = Run(num_rounds=2)
    run.open()
    run.complete()
    assert run.fail() == [Configure(2, 1, ("a", "b", "c"))]
    assert run.rounds.base == 1


# Waiting


def test_waiting_for_clients_is_bounded_and_counts_as_a_failed_round() -> None:
    run = Run(max_failed_rounds=2)
    assert run.tick(5.0) == []
    assert run.rounds.next_wakeup() == 5.0 + MAX_EXCHANGE_S
    run.at = 20.0
    run.ready("a")
    assert run.rounds.next_wakeup() == 5.0 + MAX_EXCHANGE_S
    assert run.tick(34.9) == []
    assert run.tick(35.0) == [FailRound(1, "1 of 3 clients (min_available_clients)")]
    run.at = 36.0
    assert run.feed(Restored) == []
    assert (run.rounds.round, run.rounds.next_wakeup()) == (2, 36.0 + MAX_EXCHANGE_S)
    run.tick(66.0)
    assert run.feed(Restored) == [Finish("failed", "2 rounds failed in a row (max_failed_rounds)")]


def test_a_round_that_waits_in_the_middle_of_a_run_opens_with_the_last_client_needed() -> None:
    run = Run()
    run.open()
    run.updates("abc")
    run.feed(ClientGone, "b")
    run.at = 4.0
    assert run.feed(Aggregated) == [CompleteRound(1, ("a", "b", "c"))]
    assert (run.rounds.phase, run.rounds.next_wakeup()) == (Phase.WAITING, 4.0 + MAX_EXCHANGE_S)
    run.at = 20.0
    assert run.ready("d") == [Configure(2, 0, ("a", "c", "d"))]


# After a restart

MIDWAY = Position(
    next_round=2,
    base=1,
    failed_in_a_row=1,
    kept={"a": 1},
    exchange=1,
    cohort=frozenset("abc"),
    answered=frozenset("a"),
)


def test_an_exchange_that_was_open_goes_on_with_its_cohort_and_its_updates() -> None:
    run = Run(MIDWAY, num_exchanges=2)
    assert run.ready("d") == [Configure(2, 1, ("a", "b", "c"))]
    assert run.feed(Configured) == []
    assert run.ready("a") == []
    assert run.ready("b") == [SendTask("b")]
    assert refused(run.update("a"))[0] == "duplicate"
    run.update("b")
    run.tick(DEADLINE_S)
    assert run.feed(Aggregated)[0] == CompleteRound(2, ("a", "b"))
    assert (run.rounds.kept, run.rounds.base, run.rounds.failed_in_a_row) == ({"a": 2, "b": 2}, 2, 0)


def test_an_exchange_that_all_had_answered_closes_as_soon_as_it_is_open_again() -> None:
    position = Position(1, exchange=0, cohort=frozenset("ab"), answered=frozenset("ab"))
    run = Run(position)
    assert run.ready("a") == [Configure(1, 0, ("a", "b"))]
    assert run.feed(Configured) == [Aggregate(1, 0, ("a", "b"))]


def test_an_exchange_that_was_open_goes_on_even_if_nobody_returns() -> None:
    run = Run(MIDWAY, num_exchanges=2)
    run.tick(0.0)
    assert run.tick(MAX_EXCHANGE_S) == [Configure(2, 1, ("a", "b", "c"))]
    assert run.feed(Configured) == []
    assert run.tick(MAX_EXCHANGE_S + DEADLINE_S) == [FailRound(2, run.failure(1, "b, c"))]
    assert run.feed(Restored) == []
    assert (run.rounds.round, run.rounds.exchange, run.rounds.answered) == (3, 0, set())
    assert run.ready("xyz") == [Configure(3, 0, ("x", "y", "z"))]


def test_an_evaluation_that_was_open_still_cannot_fail() -> None:
    run = Run(Position(3, base=3, exchange=1, cohort=frozenset("ab"), answered=frozenset("a")))
    run.tick(0.0)
    assert run.tick(MAX_EXCHANGE_S) == [Configure(3, 1, ("a", "b"))]
    run.feed(Configured)
    assert run.tick(MAX_EXCHANGE_S + DEADLINE_S) == [Aggregate(3, 1, ("a",))]
    assert run.feed(Aggregated) == [Finish("finished")]


def test_between_two_exchanges_the_next_one_opens_for_the_same_cohort() -> None:
    run = Run(Position(2, base=1, exchange=1, cohort=frozenset("ab")), num_exchanges=2)
    assert run.ready("c") == [Configure(2, 1, ("a", "b"))]
    assert run.feed(Configured) == []
    assert run.ready("a") == [SendTask("a")]


EVALUATED_NEXT = Position(4, base=3, kept={"a": 3})


def test_an_evaluation_that_was_not_open_waits_for_everybody() -> None:
    run = Run(EVALUATED_NEXT)
    assert run.tick(0.0) == run.ready("ab") == []
    assert (run.rounds.round, run.rounds.evaluating) == (3, True)
    assert run.ready("c") == [Configure(3, 1, ("a", "b", "c"))]


def test_an_evaluation_that_was_open_waits_for_everybody_too() -> None:
    """Else the run would be over before those come back who have answered."""
    run = Run(Position(3, base=3, exchange=1, cohort=frozenset("abc"), answered=frozenset("ab")))
    assert run.ready("cb") == []
    assert run.ready("a") == [Configure(3, 1, ("a", "b", "c"))]
    assert run.feed(Configured) == [SendTask("c")]


def test_an_evaluation_that_was_not_open_waits_so_long_and_no_longer() -> None:
    run = Run(EVALUATED_NEXT)
    run.tick(0.0)
    run.ready("a")
    assert run.tick(MAX_EXCHANGE_S - 0.001) == []
    assert run.tick(MAX_EXCHANGE_S) == [Configure(3, 1, ("a",))]


def test_an_evaluation_that_nobody_returns_to_ends_the_run() -> None:
    run = Run(EVALUATED_NEXT)
    run.tick(0.0)
    assert run.tick(MAX_EXCHANGE_S) == [Finish("finished", "no client was there for the last evaluation")]


@pytest.mark.parametrize("leaves", [False, True])
def test_the_evaluation_waits_for_those_who_have_not_been_there_since_the_restart(leaves: bool) -> None:
    """The last exchange goes on with the first who is there, and closes with what it has."""
    run = Run(Position(3, base=2, exchange=0, cohort=frozenset("ab"), answered=frozenset("ab")))
    run.ready("a")
    run.feed(Configured)
    if leaves:
        run.ready("bc")
        run.feed(ClientGone, "b")
    found = run.feed(Aggregated)
    assert found[1:] == ([Configure(3, 1, ("a", "c"))] if leaves else [])


@pytest.mark.parametrize(
    ("position", "end"),
    [
        (Position(4, base=3, is_evaluated=True), Finish("finished")),
        (Position(4, base=0, failed_in_a_row=2), Finish("failed", "no round was completed")),
        (Position(3, base=0, failed_in_a_row=3), Finish("failed", "3 rounds failed in a row (max_failed_rounds)")),
    ],
    ids=["evaluated", "nothing completed", "given up"],
)
def test_a_run_that_was_over_is_over_again(position: Position, end: Finish) -> None:
    run = Run(position)
    assert run.rounds.conclusion() == end
    assert run.tick(0.0) == [end]
    assert run.rounds.phase is Phase.OVER


def test_a_run_that_was_killed_when_it_was_over_waits_for_those_who_took_part() -> None:
    run = Run(Position(4, base=3, kept=dict.fromkeys("abcd", 3), is_evaluated=True, is_told=False))
    assert run.tick(0.0) == []
    assert run.ready("abc") == []
    assert run.ready("d") == [Finish("finished")]


def test_it_does_not_wait_for_ever() -> None:
    run = Run(Position(4, base=3, is_evaluated=True, is_told=False))
    assert run.tick(0.0) == []
    assert run.rounds.next_wakeup() == RETURN_S
    assert run.tick(RETURN_S) == [Finish("finished")]


def test_an_update_that_comes_before_its_exchange_is_open_again_is_early() -> None:
    def code(exchange: int) -> str | None:
        refusal = run.rounds.refusal_of("b", 2, exchange)
        return refusal.code if refusal is not None else None

    run = Run(MIDWAY, num_exchanges=2)
    assert (code(1), code(0)) == ("not_open", "stale")
    run.ready("b")
    assert (code(1), code(0)) == ("not_open", "stale")
    run.feed(Configured)
    assert (code(1), code(0)) == (None, "stale")


def test_between_rounds_a_restarted_run_opens_its_next_round_as_usual() -> None:
    run = Run(Position(3, base=2, failed_in_a_row=2, kept={"a": 2}))
    assert run.ready("ab") == []
    assert run.ready("c") == [Configure(3, 0, ("a", "b", "c"))]
    run.feed(Configured)
    run.tick(DEADLINE_S)
    assert run.feed(Restored) == [Finish("failed", "3 rounds failed in a row (max_failed_rounds)")]


def test_a_run_without_a_completed_round_has_failed_and_needs_no_evaluation() -> None:
    run = Run(num_rounds=1)
    run.open()
    run.tick(MAX_EXCHANGE_S)
    assert run.feed(Restored) == [Finish("failed", "no round was completed")]
