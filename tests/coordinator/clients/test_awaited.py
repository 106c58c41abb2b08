"""What people are told of a wait: for whom and what, why where that is known, and for how long."""

from __future__ import annotations

from coordinator.clients.awaited import MAX_GONE, MAX_WHY, Wait, awaited
from coordinator.round_events import Configured, FailRound, Restored
from coordinator.round_rules import Position
from coordinator.rounds import RETURN_S
from tests.coordinator.round_driver import DEADLINE_S, MAX_EXCHANGE_S, Guests, Run


def test_clients_are_counted_and_the_wait_for_them_has_an_end() -> None:
    run = Run()
    assert run.waits_for() == "waiting for clients 0/3 (min_available_clients)"
    run.tick(1.0)
    run.ready("a")
    run.at = 2.5
    assert run.waits_for("a") == "waiting for clients 1/3 (min_available_clients), for 29 s at most"
    told = "waiting for clients 1/3 (min_available_clients); 2 more joined and are loading data and model"
    assert run.waits_for("abc") == f"{told}, for 29 s at most"
    run.ready("bc")
    assert run.waits_for("abc") == "waiting for the aggregator"


def test_on_a_full_disk_it_is_space_that_is_waited_for() -> None:
    run = Run()
    run.tick(1.0)
    assert awaited(run.rounds, Guests(), is_short=True) == Wait("waiting for space on the disk")


def test_who_was_here_and_is_gone_as_the_next_round_is_to_open_is_named() -> None:
    run = Run()
    run.tick(1.0)
    run.ready("ab")
    run.at = 2.5
    told = "waiting for clients 2/3 (min_available_clients); gone: c (silent)"
    assert run.waits_for("ab", c="silent for 10.0 s") == f"{told}, for 29 s at most"
    many = {f"client-{index}": "left" for index in range(MAX_GONE + 2)}
    assert "client-4 (left), 2 more, for" in run.waits_for("ab", **many)


def test_who_waits_outside_for_the_part_of_another_is_named_with_whose_it_is() -> None:
    run, guests = Run(), Guests("a")
    run.ready("a")
    guests.put_off = {"b": "[data] index = 0, which a has"}
    told = "waiting for clients 1/3 (min_available_clients); b waits for [data] index = 0, which a has"
    assert awaited(run.rounds, guests).what == told
    guests.put_off |= {f"c{index}": "..." for index in range(MAX_GONE)}
    assert awaited(run.rounds, guests).what.endswith(", c3 waits for ..., 1 more wait so")


def test_below_the_quorum_the_deadline_may_be_put_off() -> None:
    run = Run()
    run.open()
    run.update("b")
    end = "until the deadline in 10 s, or in 30 s while there is progress"
    assert run.waits_for() == f"waiting for updates 1/3, missing a, c, {end}"
    for run.at in (5.0, 14.0, 23.0):
        run.progress("a")
    assert run.waits_for() == "waiting for updates 1/3, missing a, c, until the deadline in 7 s at most"


def test_with_a_quorum_the_deadline_stands() -> None:
    run = Run()
    run.open()
    run.updates("ab")
    run.at = 1.2
    assert run.waits_for() == "waiting for updates 2/3, missing c, until the deadline in 9 s at most"
    run.at = 99.0
    assert run.waits_for() == "waiting for updates 2/3, missing c, until the deadline in 0 s at most"


def test_who_is_gone_is_told_with_why_and_who_was_refused_is_not_waited_for() -> None:
    run = Run(min_available_clients=4)
    run.open("abcd")
    run.update("a")
    run.misfit("c")
    told = run.waits_for("ac", b="the key of b was revoked", d="x" * 1000)
    missing = f"missing b (the key of b was revoked), d ({'x' * MAX_WHY}); refused: c"
    assert told.startswith(f"waiting for updates 1/4, {missing}, until")


def test_a_run_that_ends_says_so() -> None:
    run = Run(Position(4, base=3, failed_in_a_row=3, is_told=False))
    run.tick(0.0)
    why = "3 rounds failed in a row (max_failed_rounds)"
    told = f"the run ends ({why}) and waits until its clients have heard of it"
    assert run.waits_for() == f"{told}, for {RETURN_S:g} s at most"
    run.tick(RETURN_S)
    assert run.waits_for() == "nothing: the run is over"


def test_one_that_is_evaluated_too() -> None:
    run = Run(Position(4, base=3, is_evaluated=True, is_told=False))
    run.tick(0.0)
    assert run.waits_for().startswith("the run ends (finished) and waits until its clients have heard of it, for 25 s")


def test_while_the_server_half_works_there_is_no_end_to_tell() -> None:
    run = Run()
    run.open()
    assert run.tick(MAX_EXCHANGE_S)[0] == FailRound(1, run.failure(0, "a, b, c"))
    assert run.waits_for() == "waiting for the aggregator"
    run.feed(Restored)
    assert run.waits_for() == "waiting for the aggregator"
    run.feed(Configured)
    assert "missing a, b, c, until the deadline in 10 s" in run.waits_for()
    assert DEADLINE_S == 10.0
