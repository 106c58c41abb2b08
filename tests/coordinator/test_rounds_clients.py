"""Which clients get a task, and which updates are refused with what answer."""

from __future__ import annotations

import pytest

from coordinator.round_events import (
    Accept,
    Aggregate,
    Aggregated,
    ClientGone,
    Configure,
    Configured,
    FailRound,
    Restored,
    SendTask,
    Ticked,
    UpdateArrived,
)
from coordinator.round_rules import Position
from coordinator.rounds import Phase
from tests.coordinator.round_driver import DEADLINE_S, MAX_EXCHANGE_S, Run, refused, tasks


def test_a_late_joiner_takes_part_from_the_next_round_on() -> None:
    run = Run()
    run.open()
    assert run.ready("d") == []
    assert run.complete("abc")[1] == Configure(2, 0, ("a", "b", "c", "d"))


def test_a_reconnecting_member_gets_its_task_again_unless_it_has_answered() -> None:
    run = Run()
    run.open()
    run.update("a")
    run.feed(ClientGone, "a")
    run.feed(ClientGone, "b")
    assert run.ready("a") == []
    assert run.ready("b") == [SendTask("b")]


def test_tasks_go_only_to_members_that_are_here_and_to_the_others_when_they_return() -> None:
    run = Run()
    run.ready("abc")
    run.feed(ClientGone, "b")
    assert run.feed(Configured) == tasks("ac")
    assert run.ready("b") == [SendTask("b")]


def test_a_client_that_comes_while_the_server_half_works_gets_no_task_yet() -> None:
    run = Run()
    run.ready("abc")
    assert run.ready("b") == []
    run.feed(Configured)
    run.updates("abc")
    assert run.ready("c") == []


def test_nobody_waits_for_a_client_that_is_left_out() -> None:
    run = Run()
    run.open()
    run.update("a")
    run.feed(ClientGone, "b")
    assert run.rounds.phase is Phase.COLLECTING
    run.update("c")
    assert run.feed(ClientGone, "b", for_good=True) == [Aggregate(1, 0, ("a", "c"))]


def test_later_rounds_do_not_wait_for_a_client_that_is_left_out() -> None:
    run = Run()
    run.open()
    run.updates("ac")
    run.feed(ClientGone, "b", for_good=True)
    run.feed(Aggregated)
    opened = run.rounds.round, run.rounds.phase
    assert opened == (2, Phase.CONFIGURING)


def test_nobody_waits_after_a_restart_for_a_client_that_was_left_out_before() -> None:
    run = Run(left_out="b")
    run.ready("a")
    assert run.ready("c") == [Configure(1, 0, ("a", "c"))]


def test_a_run_with_clients_to_spare_still_waits_for_as_many_as_it_wants() -> None:
    run = Run(num_clients=4)
    assert run.feed(ClientGone, "d", for_good=True) == []
    assert run.ready("ab") == []
    assert run.ready("c") == [Configure(1, 0, ("a", "b", "c"))]


def test_a_quorum_is_waited_for_whoever_is_left_out() -> None:
    run = Run()
    run.ready("a")
    for client in "bc":
        run.feed(ClientGone, client, for_good=True)
    assert run.rounds.phase is Phase.WAITING
    assert run.rounds.num_needed == 2


def test_where_no_others_can_come_a_round_that_can_have_no_quorum_is_not_waited_for() -> None:
    run = Run(others_may_come=False)
    run.ready("a")
    run.feed(ClientGone, "b", for_good=True)
    assert run.rounds.next_wakeup() == MAX_EXCHANGE_S
    run.feed(ClientGone, "c", for_good=True)
    assert run.rounds.next_wakeup() == 0.0
    (failed,) = run.feed(Ticked)
    assert failed == FailRound(1, "1 of 2 clients (min_clients)")


def test_the_last_evaluation_needs_no_quorum_and_waits_for_those_who_are_to_come() -> None:
    run = Run(Position(next_round=4, base=3), others_may_come=False)
    run.ready("a")
    for client in "bc":
        run.feed(ClientGone, client, for_good=True)
    assert run.rounds.next_wakeup() == MAX_EXCHANGE_S


def test_of_all_left_out_a_round_fails_at_once() -> None:
    run = Run()
    run.open()
    for client in "ab":
        assert run.feed(ClientGone, client, for_good=True) == []
    (failed,) = run.feed(ClientGone, "c", for_good=True)
    assert isinstance(failed, FailRound)
    assert "missing: a, b, c" in failed.reason


# Refusals


@pytest.mark.parametrize(("round", "exchange"), [(0, 0), (1, 1), (3, 0), (2, 1)])
def test_an_update_of_another_exchange_is_stale_and_hears_where_the_run_is(round: int, exchange: int) -> None:
    run = Run()
    run.open()
    run.complete()
    text = f"update of round {round}, exchange {exchange}, but the run is in round 2, exchange 0"
    assert refused(run.feed(UpdateArrived, "a", round, exchange)) == ("stale", text)


def test_a_second_update_is_a_duplicate_also_after_the_exchange_has_closed() -> None:
    run = Run()
    run.open()
    run.updates("ab")
    duplicate = ("duplicate", "an update of round 1, exchange 0 is in hand")
    assert refused(run.update("a")) == duplicate
    run.update("c")
    assert run.rounds.phase is Phase.AGGREGATING
    assert refused(run.update("a")) == duplicate


def test_an_accepted_update_is_a_duplicate_whatever_the_run_has_gone_on_to() -> None:
    run = Run(num_exchanges=2)
    run.open()
    run.updates("abc")
    run.feed(Aggregated)
    assert refused(run.feed(UpdateArrived, "a", 1, 0))[0] == "duplicate"
    run.feed(Configured)
    assert refused(run.feed(UpdateArrived, "a", 1, 0))[0] == "duplicate"
    run.updates("ab")
    run.tick(DEADLINE_S)
    run.feed(Aggregated)
    run.feed(Configured)
    assert (run.rounds.round, run.rounds.exchange) == (2, 0)
    told = [refused(run.feed(UpdateArrived, client, 1, 1))[0] for client in "abc"]
    assert told == ["duplicate", "duplicate", "stale"]


def test_an_accepted_update_of_a_failed_round_is_a_duplicate_too() -> None:
    run = Run()
    run.open()
    run.update("a")
    assert isinstance(run.tick(MAX_EXCHANGE_S)[0], FailRound)
    run.feed(Restored)
    assert [refused(run.feed(UpdateArrived, client, 1, 0))[0] for client in "ab"] == ["duplicate", "stale"]


def test_after_a_restart_accepted_updates_are_known_from_the_store() -> None:
    def codes(run: Run, round: int, exchange: int) -> list[str]:
        return [refused(run.feed(UpdateArrived, client, round, exchange))[0] for client in "abc"]

    between = Run(Position(3, base=2, kept={"a": 2, "b": 1}), num_exchanges=2)
    assert codes(between, 2, 1) == ["duplicate", "stale", "stale"]
    assert codes(between, 1, 1) == ["stale", "duplicate", "stale"]
    cohort = frozenset("abc")
    midway = Position(2, base=1, kept={"c": 1}, exchange=1, cohort=cohort, answered=frozenset("a"), accepted=cohort)
    resumed = Run(midway, num_exchanges=2)
    assert codes(resumed, 2, 1) == ["duplicate", "not_open", "not_open"]
    assert codes(resumed, 2, 0) == ["stale", "duplicate", "duplicate"]
    assert codes(resumed, 1, 1) == ["stale", "stale", "stale"]


def test_an_update_after_the_exchange_has_closed_is_stale() -> None:
    run = Run()
    run.open()
    run.updates("ab")
    run.tick(DEADLINE_S)
    text = "the run is in round 1, exchange 0, which takes no updates now"
    assert refused(run.update("c")) == ("stale", text)


def test_no_stale_update_hears_that_the_run_takes_updates_of_its_own_exchange() -> None:
    """Its client would take the refusal for one of an older update, and hold it."""
    run = Run(num_exchanges=2)
    assert run.rounds.takes_from == (1, 0)
    run.open()
    assert run.rounds.takes_from == (1, 0)
    assert run.updates("abc")[-1] == Aggregate(1, 0, ("a", "b", "c"))
    assert run.rounds.takes_from == (1, 1)
    run.feed(Aggregated)
    assert run.rounds.takes_from == (1, 1)
    run.feed(Configured)
    assert isinstance(run.tick(DEADLINE_S)[0], FailRound)
    assert run.rounds.takes_from == (1, 2)
    run.feed(Restored)
    assert run.rounds.takes_from == (2, 0)


def test_an_update_before_the_exchange_opens_is_early_whoever_answered_the_last_one() -> None:
    run = Run(num_exchanges=2)
    run.open()
    run.updates("abc")
    run.feed(Aggregated)
    assert refused(run.update("a"))[0] == "not_open"
    run.feed(Configured)
    run.updates("abc")
    for client in "ab":
        run.feed(ClientGone, client)
    run.feed(Aggregated)
    assert run.rounds.phase is Phase.WAITING
    assert refused(run.update("a"))[0] == "not_open"


def test_an_update_from_outside_the_cohort_is_refused_and_hears_the_cohort() -> None:
    run = Run()
    run.open()
    run.ready("d")
    text = "the run is in round 1, exchange 0, and its cohort is ['a', 'b', 'c']"
    assert refused(run.update("d")) == ("not_in_cohort", text)
    assert refused(run.update("nobody")) == ("not_in_cohort", text)


def test_a_refused_client_takes_part_in_the_next_round() -> None:
    run = Run()
    run.open()
    run.updates("ab")
    run.tick(DEADLINE_S)
    run.feed(Aggregated)
    run.feed(Configured)
    assert refused(run.feed(UpdateArrived, "c", 1, 0))[0] == "stale"
    assert run.update("c") == [Accept("c")]


def test_refusal_of_says_beforehand_what_handle_will_say() -> None:
    run = Run()
    run.open()
    assert run.rounds.refusal_of("a", 1, 0) is None
    run.update("a")
    assert [run.rounds.refusal_of("a", 1, 0)] == run.update("a")
    assert [run.rounds.refusal_of("b", 2, 0)] == run.feed(UpdateArrived, "b", 2, 0)
