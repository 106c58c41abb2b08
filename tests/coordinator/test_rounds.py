"""The rounds of a run, event by event: whole runs, cohorts, exchanges, the evaluation."""

from __future__ import annotations

import itertools
from typing import Any

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
    Restored,
    UpdateArrived,
)
from coordinator.rounds import Phase
from tests.coordinator.round_driver import DEADLINE_S, Run, tasks


def test_a_round_from_waiting_to_complete() -> None:
    run = Run()
    assert (run.rounds.phase, run.rounds.next_wakeup()) == (Phase.WAITING, None)
    assert run.ready("ca") == []
    assert run.ready("b") == [Configure(1, 0, ("a", "b", "c"))]
    assert (run.rounds.phase, run.rounds.next_wakeup()) == (Phase.CONFIGURING, None)
    assert run.feed(Configured) == tasks("abc")
    assert (run.rounds.phase, run.rounds.next_wakeup()) == (Phase.COLLECTING, DEADLINE_S)
    assert run.update("c") == [Accept("c")]
    assert run.update("a") == [Accept("a")]
    assert run.update("b") == [Accept("b"), Aggregate(1, 0, ("a", "b", "c"))]
    assert (run.rounds.phase, run.rounds.next_wakeup()) == (Phase.AGGREGATING, None)
    assert run.feed(Aggregated) == [CompleteRound(1, ("a", "b", "c")), Configure(2, 0, ("a", "b", "c"))]


def test_a_run_from_its_first_round_to_its_last_evaluation() -> None:
    run = Run(num_rounds=2)
    run.open()
    run.complete()
    assert run.complete() == [CompleteRound(2, ("a", "b", "c")), Configure(2, 1, ("a", "b", "c"))]
    assert run.rounds.evaluating
    run.updates("ab")
    assert run.update("c") == [Accept("c"), Aggregate(2, 1, ("a", "b", "c"))]
    assert run.feed(Aggregated) == [Finish("finished")]
    assert run.rounds.phase is Phase.OVER


def test_nothing_more_happens_when_the_run_is_over() -> None:
    run = Run(num_rounds=1)
    run.open()
    run.complete()
    run.updates("abc")
    run.feed(Aggregated)
    assert run.ready("abcd") == run.tick(1e9) == run.feed(Aggregated) == run.feed(Restored) == []
    assert run.feed(UpdateArrived, "a", 1, 1) == []
    assert (run.rounds.next_wakeup(), run.waits_for()) == (None, "nothing: the run is over")


# Cohorts


def cohort(clients: str, **changes: Any) -> tuple[str, ...]:
    """The cohort of a round whose clients became ready in this order."""
    found = Run(min_available_clients=len(clients), **changes).ready(clients)
    assert isinstance(found[0], Configure)
    return found[0].cohort


def test_the_cohort_does_not_depend_on_who_came_first() -> None:
    drawn = {cohort("".join(order), fraction=0.5) for order in itertools.permutations("abcde")}
    assert len(drawn) == 1
    assert len(drawn.pop()) == 3


def test_cohorts_differ_between_seeds_and_between_rounds() -> None:
    assert len({cohort("abcdef", fraction=0.5, seed=seed) for seed in range(20)}) > 5
    run = Run(num_rounds=20, fraction=0.34, min_available_clients=6)
    run.open("abcdef")
    drawn = set()
    for _ in range(15):
        drawn.add(run.rounds.cohort)
        run.complete("".join(run.rounds.cohort))
    assert len(drawn) > 5


@pytest.mark.parametrize(
    ("fraction", "min_clients", "size"),
    [(1.0, 2, 10), (0.3, 2, 3), (0.31, 2, 4), (0.7, 1, 7), (0.01, 1, 1), (0.1, 4, 4), (0.1, 10, 10)],
)
def test_a_cohort_is_a_fraction_rounded_up_and_at_least_a_quorum(fraction: float, min_clients: int, size: int) -> None:
    assert len(cohort("abcdefghij", fraction=fraction, min_clients=min_clients)) == size


def test_a_client_that_left_before_the_round_opens_is_not_drawn() -> None:
    run = Run()
    run.ready("ab")
    run.feed(ClientGone, "a")
    assert run.ready("c") == []
    assert run.ready("d") == [Configure(1, 0, ("b", "c", "d"))]


# Rounds of two exchanges


def test_a_round_of_two_exchanges_is_complete_after_the_second() -> None:
    run = Run(num_exchanges=2)
    run.open()
    run.updates("abc")
    assert run.feed(Aggregated) == [Configure(1, 1, ("a", "b", "c"))]
    assert run.rounds.kept == {}
    assert run.feed(Configured) == tasks("abc")
    assert run.updates("abc") == [Accept("c"), Aggregate(1, 1, ("a", "b", "c"))]
    assert run.feed(Aggregated)[0] == CompleteRound(1, ("a", "b", "c"))


def test_the_cohort_stays_for_the_second_exchange_and_its_clock_starts_anew() -> None:
    run = Run(num_exchanges=2, fraction=0.5, min_available_clients=4)
    run.ready("abcd")
    cohort = run.rounds.cohort
    run.feed(Configured)
    run.ready("efgh")
    run.at = 7.0
    run.updates("".join(cohort))
    assert run.feed(Aggregated) == [Configure(1, 1, tuple(sorted(cohort)))]
    assert run.feed(Configured) == tasks("".join(sorted(cohort)))
    assert run.rounds.next_wakeup() == 7.0 + DEADLINE_S


def test_a_member_that_missed_the_first_exchange_is_asked_in_the_second() -> None:
    run = Run(num_exchanges=2)
    run.open()
    run.updates("ab")
    assert run.tick(DEADLINE_S) == [Aggregate(1, 0, ("a", "b"))]
    run.feed(Aggregated)
    assert run.feed(Configured) == tasks("abc")
    run.update("b")
    assert run.update("c") == [Accept("c")]
    run.tick(2 * DEADLINE_S)
    assert run.feed(Aggregated)[0] == CompleteRound(1, ("b", "c"))
    assert run.rounds.kept == {"b": 1, "c": 1}


def test_a_second_exchange_without_a_quorum_fails_the_whole_round() -> None:
    run = Run(num_exchanges=2)
    run.open()
    run.updates("abc")
    run.feed(Aggregated)
    run.feed(Configured)
    run.update("a")
    assert run.tick(DEADLINE_S) == [FailRound(1, run.failure(1, "b, c"))]
    assert run.feed(Restored) == [Configure(2, 0, ("a", "b", "c"))]
    assert run.rounds.kept == {}


# What clients hold


def test_kept_is_the_last_round_whose_last_update_was_accepted() -> None:
    run = Run(num_rounds=5)
    run.open()
    run.complete()
    run.complete("ab")
    assert (run.rounds.kept, run.rounds.base) == ({"a": 2, "b": 2, "c": 1}, 2)
    run.fail()
    assert (run.rounds.kept, run.rounds.base) == ({"a": 2, "b": 2, "c": 1}, 2)
    run.complete("bc")
    assert (run.rounds.kept, run.rounds.base) == ({"a": 2, "b": 4, "c": 4}, 4)


def test_within_a_round_it_is_the_present_one_for_those_whose_update_was_accepted() -> None:
    run = Run(num_rounds=2, num_exchanges=2)
    run.open()
    run.updates("ab")
    assert [run.rounds.kept_of(client) for client in "abc"] == [0, 0, 0]
    run.tick(DEADLINE_S)
    run.feed(Aggregated)
    run.feed(Configured)
    assert [run.rounds.kept_of(client) for client in "abc"] == [1, 1, 0]
    run.updates("bc")
    run.tick(2 * DEADLINE_S)
    run.feed(Aggregated)
    assert (run.rounds.round, [run.rounds.kept_of(client) for client in "abc"]) == (2, [0, 1, 1])


# The evaluation


def evaluation(clients: str = "abc") -> Run:
    """A run whose evaluation is open for these clients."""
    run = Run(num_rounds=1)
    run.open()
    run.updates("abc")
    for client in set("abc") - set(clients):
        run.feed(ClientGone, client)
    run.ready(clients)
    run.feed(Aggregated)
    run.feed(Configured)
    return run


def test_everybody_ready_takes_part_in_the_evaluation() -> None:
    run = Run(num_rounds=1, fraction=0.5, min_clients=1)
    run.open("abcdef")
    run.updates("".join(run.rounds.cohort))
    assert run.feed(Aggregated)[1] == Configure(1, 1, ("a", "b", "c", "d", "e", "f"))


def test_the_evaluation_needs_no_quorum() -> None:
    run = evaluation("d")
    assert run.update("d") == [Accept("d"), Aggregate(1, 1, ("d",))]
    assert run.feed(Aggregated) == [Finish("finished")]


def test_the_evaluation_closes_by_its_deadline_whatever_is_reported() -> None:
    run = evaluation()
    run.at = 9.0
    run.progress("a")
    assert run.rounds.next_wakeup() == DEADLINE_S
    assert run.tick(DEADLINE_S) == [Aggregate(1, 1, ())]
    assert run.feed(Aggregated, failure="nothing came") == [Finish("finished")]


def test_the_evaluation_ends_at_once_if_nobody_is_here() -> None:
    run = Run(num_rounds=1)
    run.open()
    run.updates("abc")
    for client in "abc":
        run.feed(ClientGone, client)
    done = [CompleteRound(1, ("a", "b", "c")), Finish("finished", "no client was there for the last evaluation")]
    assert run.feed(Aggregated) == done
