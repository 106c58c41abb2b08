"""Updates that cannot be right: refused, and not waited for any more."""

from __future__ import annotations

from coordinator.round_events import (
    Accept,
    Aggregate,
    Aggregated,
    ClientGone,
    CompleteRound,
    Configured,
    FailRound,
    Refuse,
    SendTask,
)
from coordinator.rounds import MAX_TOLD, Phase
from tests.coordinator.round_driver import DEADLINE_S, Run, refused


def test_an_exchange_closes_when_all_others_have_answered() -> None:
    run = Run()
    run.open()
    assert run.misfit("a") == [Refuse("a", "malformed", "got 14")]
    assert run.update("b") == [Accept("b")]
    assert run.update("c") == [Accept("c"), Aggregate(1, 0, ("b", "c"))]
    assert run.feed(Aggregated)[0] == CompleteRound(1, ("b", "c"))


def test_the_last_answer_may_be_the_misfit() -> None:
    run = Run()
    run.open()
    run.updates("bc")
    assert run.misfit("a") == [Refuse("a", "malformed", "got 14"), Aggregate(1, 0, ("b", "c"))]


def test_a_corrected_update_is_taken_while_the_exchange_is_open() -> None:
    run = Run()
    run.open()
    run.misfit("a")
    assert run.update("a") == [Accept("a")]
    assert run.rounds.refused == {}
    assert run.rounds.missing == {"b", "c"}
    run.update("b")
    assert run.update("c")[1] == Aggregate(1, 0, ("a", "b", "c"))


def test_one_for_another_exchange_or_from_who_has_answered_is_refused_as_such() -> None:
    run = Run()
    run.open()
    run.update("a")
    assert refused(run.misfit("a"))[0] == "duplicate"
    assert refused(run.misfit("x"))[0] == "not_in_cohort"
    run.updates("bc")
    assert refused(run.misfit("b"))[0] == "duplicate"
    assert run.rounds.refused == {}


def test_below_the_quorum_the_round_fails_at_once_when_nobody_is_left_to_wait_for() -> None:
    run = Run()
    run.open()
    run.update("b")
    run.misfit("c", "field 'x': got 14")
    why = f"{run.failure(1, '').removesuffix('; missing: ')}; refused: a, c (a: {'y' * MAX_TOLD})"
    assert run.misfit("a", "y" * 500)[1:] == [FailRound(1, why)]


def test_below_the_quorum_others_are_waited_for() -> None:
    run = Run()
    run.open()
    run.update("b")
    run.misfit("c", "got 14")
    assert run.rounds.phase is Phase.COLLECTING
    assert run.tick(DEADLINE_S) == [FailRound(1, f"{run.failure(1, 'a')}; refused: c (c: got 14)")]


def test_it_is_waited_for_again_in_the_next_exchange() -> None:
    run = Run(num_exchanges=2)
    run.open()
    run.misfit("a")
    run.updates("bc")
    run.feed(Aggregated)
    assert SendTask("a") in run.feed(Configured)
    run.updates("bc")
    assert run.rounds.phase is Phase.COLLECTING
    assert run.rounds.missing == {"a"}


def test_who_comes_back_is_neither_asked_again_nor_waited_for() -> None:
    run = Run()
    run.open()
    run.misfit("a")
    for _ in range(3):
        run.feed(ClientGone, "a")
        assert run.ready("a") == []
    run.update("b")
    assert run.update("c")[1] == Aggregate(1, 0, ("b", "c"))


def test_one_client_is_not_counted_twice_for_being_refused_and_left_out() -> None:
    run = Run()
    run.open()
    run.misfit("a")
    assert run.feed(ClientGone, "a", for_good=True) == []
    run.update("b")
    assert run.rounds.phase is Phase.COLLECTING
