"""Who is here: reconnects, second processes with one id, silence, and routes that nobody holds."""

from __future__ import annotations

import pytest

from coordinator.clients.membership import PROBE_S, Admit, Lost, Membership, Probe, RefuseDuplicate

HEARTBEAT_S = 5.0
SILENCE_S = 2 * HEARTBEAT_S
NO_ANSWER = "it did not answer while another process asked for its id"


@pytest.fixture
def here() -> Membership:
    """A membership in which `a` came at time 0 by route `1`, as incarnation 100."""
    here = Membership(HEARTBEAT_S)
    assert here.hello("a", b"1", 100, 0.0) == [Admit("a", b"1")]
    return here


def test_an_unknown_id_is_admitted(here: Membership) -> None:
    assert here.hello("b", b"2", 200, 1.0) == [Admit("b", b"2")]
    assert [here.client_at(route) for route in (b"1", b"2", b"3")] == ["a", "b", None]


def test_the_same_process_on_a_new_connection_is_admitted(here: Membership) -> None:
    assert here.hello("a", b"2", 100, 1.0) == [Admit("a", b"2")]
    assert (here.client_at(b"1"), here.client_at(b"2")) == (None, "a")
    assert here.unreachable(b"1", 2.0) == []
    assert here.members["a"].route == b"2"


def test_the_same_process_may_say_hello_again_on_its_connection(here: Membership) -> None:
    assert here.hello("a", b"1", 100, 1.0) == [Admit("a", b"1")]
    assert here.client_at(b"1") == "a"


# Two processes with one id


def test_a_second_live_process_is_refused_and_the_first_undisturbed(here: Membership) -> None:
    assert here.hello("a", b"2", 999, 1.0) == [Probe("a", b"1")]
    assert here.next_wakeup() == 1.0 + PROBE_S
    assert here.answered(b"1", 1.1) == [RefuseDuplicate("a", b"2")]
    assert here.tick(1.0 + PROBE_S) == []
    assert (here.client_at(b"1"), here.client_at(b"2")) == ("a", None)


def test_a_restarted_process_is_served_when_the_older_one_did_not_answer(here: Membership) -> None:
    here.hello("a", b"2", 999, 1.0)
    assert here.tick(1.0 + PROBE_S - 0.001) == []
    assert here.tick(1.0 + PROBE_S) == [Lost("a", NO_ANSWER), Admit("a", b"2")]
    assert (here.client_at(b"1"), here.client_at(b"2")) == (None, "a")
    assert here.next_wakeup() == 1.0 + PROBE_S + SILENCE_S


def test_a_restarted_process_is_served_within_5_s_with_time_to_connect() -> None:
    assert PROBE_S <= 3.0


def test_a_restarted_process_is_served_at_once_when_the_older_connection_is_gone(here: Membership) -> None:
    here.hello("a", b"2", 999, 1.0)
    assert here.unreachable(b"1", 1.0) == [Lost("a", "its connection is gone"), Admit("a", b"2")]
    assert here.next_wakeup() == 1.0 + SILENCE_S


def test_a_restarted_process_is_served_at_once_when_the_older_one_leaves(here: Membership) -> None:
    here.hello("a", b"2", 999, 1.0)
    assert here.goodbye(b"1", "stopped", 1.5) == [Lost("a", "it left: stopped"), Admit("a", b"2")]


def test_what_others_say_proves_nothing_of_a_probed_client(here: Membership) -> None:
    here.hello("b", b"3", 300, 0.0)
    here.hello("a", b"2", 999, 1.0)
    assert here.answered(b"3", 1.1) == here.answered(b"2", 1.1) == []
    assert here.tick(1.0 + PROBE_S) == [Lost("a", NO_ANSWER), Admit("a", b"2")]


def test_a_probed_client_that_reconnects_has_proven_itself(here: Membership) -> None:
    here.hello("a", b"2", 999, 1.0)
    assert here.hello("a", b"3", 100, 2.0) == [RefuseDuplicate("a", b"2"), Admit("a", b"3")]
    assert here.tick(1.0 + PROBE_S) == []
    assert here.client_at(b"3") == "a"


def test_a_newcomer_that_asks_again_does_not_put_the_decision_off(here: Membership) -> None:
    here.hello("a", b"2", 999, 1.0)
    assert here.hello("a", b"3", 999, 2.0) == []
    assert here.tick(1.0 + PROBE_S) == [Lost("a", NO_ANSWER), Admit("a", b"3")]


def test_a_process_that_was_restarted_twice_is_served_as_its_latest_self(here: Membership) -> None:
    here.hello("a", b"2", 888, 1.0)
    assert here.hello("a", b"3", 999, 2.0) == []
    assert here.tick(1.0 + PROBE_S) == [Lost("a", NO_ANSWER), Admit("a", b"3")]
    assert here.members["a"].incarnation == 999


def test_while_anything_comes_of_a_probed_client_the_decision_is_put_off(here: Membership) -> None:
    here.hello("a", b"2", 999, 1.0)
    here.heard(b"1", 2.5)
    assert here.tick(1.0 + PROBE_S) == []
    assert here.next_wakeup() == 2.5 + PROBE_S
    assert here.tick(2.5 + PROBE_S) == [Lost("a", NO_ANSWER), Admit("a", b"2")]


def test_a_probe_that_has_yet_to_go_out_need_not_be_answered(here: Membership) -> None:
    here.hello("a", b"2", 999, 1.0)
    here.still_sending(b"1", 1.0 + PROBE_S)
    assert here.tick(1.0 + PROBE_S) == []
    assert here.answered(b"1", 4.0) == [RefuseDuplicate("a", b"2")]


def test_what_came_before_the_probe_puts_nothing_off(here: Membership) -> None:
    here.hello("a", b"2", 999, 1.0)
    here.heard(b"1", 0.5)
    assert here.doubtful(1.0 + PROBE_S) == [here.members["a"]]


# Silence


def test_a_member_is_lost_after_two_silent_heartbeats(here: Membership) -> None:
    assert here.next_wakeup() == SILENCE_S
    assert here.tick(SILENCE_S - 0.001) == []
    assert here.tick(SILENCE_S) == [Lost("a", "silent for 10.0 s")]
    assert (here.members, here.client_at(b"1"), here.next_wakeup()) == ({}, None, None)


def test_whatever_comes_keeps_a_member(here: Membership) -> None:
    here.heard(b"1", 9.0)
    assert here.tick(SILENCE_S) == []
    assert here.next_wakeup() == 9.0 + SILENCE_S


@pytest.mark.parametrize("start", [0.1, 1e6 + 0.3, 123456.7])
def test_a_tick_at_the_wakeup_always_does_something(start: float) -> None:
    here = Membership(0.7)
    here.hello("a", b"1", 100, start)
    due = here.next_wakeup()
    assert due is not None
    assert here.tick(due) != []


def test_a_silent_member_makes_room_for_the_newcomer_that_waits(here: Membership) -> None:
    here.hello("a", b"2", 999, 9.0)
    assert here.tick(SILENCE_S) == [Lost("a", "silent for 10.0 s"), Admit("a", b"2")]
    assert here.tick(9.0 + PROBE_S) == []


def test_several_are_lost_in_the_order_of_their_ids(here: Membership) -> None:
    here.hello("c", b"3", 1, 0.0)
    here.hello("b", b"2", 1, 0.0)
    found = here.tick(SILENCE_S)
    assert [lost.client for lost in found] == ["a", "b", "c"]


# Routes


def test_a_member_that_leaves_or_cannot_be_reached_is_lost(here: Membership) -> None:
    assert here.goodbye(b"1", "the end", 1.0) == [Lost("a", "it left: the end")]
    here.hello("a", b"2", 100, 2.0)
    assert here.unreachable(b"2", 3.0) == [Lost("a", "its connection is gone")]
    assert here.members == {}


def test_nothing_follows_from_a_route_that_nobody_holds(here: Membership) -> None:
    assert here.client_at(b"9") is None
    here.heard(b"9", 1.0)
    here.still_sending(b"9", 1.0)
    assert here.answered(b"9", 1.0) == here.goodbye(b"9", "", 1.0) == here.unreachable(b"9", 1.0) == []


def test_a_connection_speaks_for_one_client(here: Membership) -> None:
    assert here.hello("b", b"1", 100, 1.0) == [Lost("a", "its connection says it is b"), Admit("b", b"1")]
    assert (list(here.members), here.client_at(b"1")) == (["b"], "b")
    assert here.tick(1.0 + SILENCE_S) == [Lost("b", "silent for 10.0 s")]


def test_a_newcomer_that_turns_to_another_id_gives_the_first_up(here: Membership) -> None:
    here.hello("a", b"2", 999, 1.0)
    assert here.hello("b", b"2", 999, 1.5) == [Admit("b", b"2")]
    assert here.tick(1.0 + PROBE_S) == []
    assert (here.client_at(b"1"), here.client_at(b"2")) == ("a", "b")
