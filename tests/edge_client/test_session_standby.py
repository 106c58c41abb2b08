"""A session with a coordinator that serves run after run: its link outlasts runs, and what it declines."""

from __future__ import annotations

import pytest

from edge_client.link import Link
from edge_client.refusals import OF_ONE_RUN
from edge_client.session_events import (
    CloseLink,
    DropUplink,
    EndTrainer,
    Exit,
    Held,
    Instruction,
    Prepare,
    Prepared,
    Say,
    Send,
    TrainerFailed,
)
from edge_client.waiting import Work
from tests.edge_client.session_driver import HEARTBEAT_S, READY, RUN, Client, exit_code, refusal, task, welcome
from wire.exit_codes import ExitCode
from wire.messages import Decline, Finish, Goodbye, Ping, RefusalCode, Standby, Welcome

IDLE_S = 15.0
LEFT: list[Instruction] = [DropUplink(), EndTrainer()]
WAITING = Say("waiting for the next run")


def standing(once: bool = False) -> Client:
    """Return a client that has connected and was told to stand by."""
    client = Client(once=once)
    client.tick(0.0)
    assert client.hear(Standby(IDLE_S)) == [WAITING]
    return client


def at_work(once: bool = False) -> Client:
    """Return one that was welcomed on the same link and holds an uplink."""
    client = standing(once)
    assert client.hear(welcome()) == [Say(f"joined run run-{RUN}"), DropUplink(), Prepare(welcome())]
    client.feed(Prepared, READY)
    return client.hold()


def test_a_client_that_stands_by_is_up_and_pings_seldom() -> None:
    client = standing()
    assert (client.current_link(), client.current_work()) == (Link.UP, Work.NONE)
    assert client.tick() == [Send(Ping())]
    assert client.at == IDLE_S


def test_the_end_of_a_run_leaves_the_link_up_for_the_next_one() -> None:
    client = at_work()
    told = "the run is over: finished"
    assert client.hear(Finish(RUN, "finished")) == [
        Send(Goodbye(told)), *LEFT, Say(f"{told}; waiting for the next one"),
    ]  # fmt: skip
    assert (client.current_link(), client.session.heartbeat_s) == (Link.UP, IDLE_S)
    assert Prepare(welcome(8)) in client.hear(welcome(8))
    assert client.session.heartbeat_s == HEARTBEAT_S


def test_what_a_task_of_an_earlier_run_waited_for_is_not_told_in_the_next() -> None:
    client = standing()
    client.hear(welcome())
    client.feed(Prepared, READY)
    client.work()
    client.feed(Held, "space")
    client.hear(Finish(RUN, "finished"))
    client.hear(welcome(8))
    client.feed(Prepared, READY)
    client.hear(task(run=8))
    assert client.current_work() is Work.WORKING
    assert client.tick() == [Send(Ping())]


def test_after_a_cut_work_goes_on_if_its_run_does() -> None:
    client = at_work()
    client.cut()
    client.tick()
    assert client.hear(Standby(IDLE_S, f"run-{RUN}")) == []
    assert client.current_work() is Work.HOLDING
    assert Send(READY) in client.hear(welcome())


@pytest.mark.parametrize(("run_id", "told"), [("", [WAITING]), ("another", [])])
def test_work_for_a_run_that_is_over_is_dropped(run_id: str, told: list[Instruction]) -> None:
    client = at_work()
    client.cut()
    client.tick()
    assert client.hear(Standby(IDLE_S, run_id)) == [*LEFT, *told]
    assert client.current_work() is Work.NONE


def test_a_client_whose_run_s_welcome_follows_does_not_wait_for_another() -> None:
    client = Client(once=False)
    client.tick(0.0)
    assert client.hear(Standby(IDLE_S, f"run-{RUN}")) == []
    assert Prepare(welcome()) in client.hear(welcome())


def test_a_trainer_that_cannot_take_part_declines_the_run() -> None:
    client = standing()
    client.hear(welcome())
    found = client.feed(TrainerFailed, "unknown method 'x'", ExitCode.BAD_CONFIG)
    told = Say(f"run run-{RUN} declined: unknown method 'x'")
    assert found == [Send(Decline(RUN, "unknown method 'x'")), told, *LEFT]
    assert client.current_link() is Link.UP
    assert client.current_work() is Work.NONE


@pytest.mark.parametrize("code", OF_ONE_RUN)
def test_a_refusal_that_is_of_one_run_alone_is_taken_as_such(code: str) -> None:
    found = at_work().hear(refusal(code, permanent=True))
    assert found[0] == Send(Decline(RUN, f"refused by the coordinator ({code}): for a reason"))
    assert found[-2:] == LEFT


def test_a_run_in_which_another_has_its_part_of_the_data_is_declined_and_a_coordinator_of_one_run_tried_again() -> None:
    client, told = at_work(), "the coordinator cannot let this client in now (data_index): for a reason"
    assert client.hear(refusal("data_index"))[0] == Send(Decline(RUN, told))
    assert client.current_link() is Link.UP
    client.cut()
    client.tick()
    assert client.hear(refusal("data_index"))[0] == CloseLink()


@pytest.mark.parametrize("code", [RefusalCode.KEY, RefusalCode.VERSION, RefusalCode.DUPLICATE_CLIENT])
def test_any_other_permanent_refusal_ends_the_client(code: str) -> None:
    assert exit_code(at_work().hear(refusal(code, permanent=True))) == ExitCode.REFUSED


def test_once_a_run_that_is_over_or_declined_ends_the_client() -> None:
    assert exit_code(at_work(once=True).hear(Finish(RUN, "finished"))) == ExitCode.FINISHED
    assert at_work(once=True).feed(TrainerFailed, "why", ExitCode.FAILED) == [Exit(ExitCode.FAILED, "why")]


@pytest.mark.parametrize("told", [Standby(IDLE_S, "run-8"), welcome(8)])
@pytest.mark.parametrize("between", [[], [Standby(IDLE_S)]])
def test_once_a_client_that_missed_the_end_of_its_run_takes_part_in_no_other(
    told: Standby | Welcome, between: list[Standby]
) -> None:
    client = at_work(once=True)
    client.cut()
    client.tick()
    for message in between:  # a service that was killed may yet go on with the run
        assert client.hear(message) == [*LEFT, WAITING]
    reason = f"run run-{RUN} is over, as there is another one; how it ended is not known here"
    assert client.hear(told) == [Exit(ExitCode.INTERRUPTED, reason)]


def test_once_a_client_goes_on_with_its_run_after_a_coordinator_that_had_yet_to_take_it_up() -> None:
    client = at_work(once=True)
    client.cut()
    client.tick()
    client.hear(Standby(IDLE_S))
    assert Prepare(welcome()) in client.hear(welcome())


def test_a_coordinator_of_one_run_ends_what_was_promised_by_another() -> None:
    client = at_work()
    client.cut()
    client.tick()
    client.hear(welcome())
    client.hear(Finish(RUN, "finished"))
    assert client.current_link() is Link.DOWN
