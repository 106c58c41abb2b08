"""A client's work for a run, which a lost link does not touch: tasks, uplinks, refusals, the end."""

from __future__ import annotations

import pytest

from edge_client.link import Link
from edge_client.session_events import (
    CloseLink,
    DropUplink,
    EndTrainer,
    Exit,
    PassConstant,
    Prepare,
    Prepared,
    Progressed,
    Say,
    Send,
    SendUplink,
    StartTask,
)
from edge_client.waiting import Work
from tests.edge_client.session_driver import LARGE, READY, RUN, SMALL, Client, refusal, task, welcome
from wire.exit_codes import ExitCode
from wire.messages import Ack, Constant, Finish, Goodbye, Grant, Offer, Progress, Task

ACK, GRANT, OFFER = Ack(RUN, 1, 0), Grant(RUN, 1, 0), Offer(RUN, 1, 0, LARGE)


def test_a_client_announces_itself_as_soon_as_its_trainer_is_ready() -> None:
    client = Client()
    client.join()
    assert client.feed(Prepared, READY) == [Send(READY)]
    assert client.current_work() is Work.IDLE


def test_a_trainer_that_gets_ready_without_a_link_is_announced_after_the_welcome() -> None:
    client = Client()
    client.join()
    client.cut()
    assert client.feed(Prepared, READY) == []
    assert client.join() == [Say("joined run run-7"), Send(READY)]


def test_a_welcome_while_the_trainer_still_loads_does_not_start_it_again() -> None:
    client = Client()
    client.join()
    client.cut()
    assert client.join() == [Say("joined run run-7")]
    assert client.feed(Prepared, READY) == [Send(READY)]


def test_constants_are_passed_on_while_the_trainer_loads() -> None:
    client = Client()
    client.join()
    assert client.hear(Constant(RUN, "masks", "digest")) == [PassConstant()]
    assert client.hear(Constant(8, "masks", "digest")) == []
    client.feed(Prepared, READY)
    assert client.hear(Constant(RUN, "masks", "digest")) == []


def test_a_welcome_to_another_run_drops_all_work() -> None:
    client = Client(once=False).hold()
    client.cut()
    client.tick()
    assert client.hear(welcome(8)) == [Say("joined run run-8"), DropUplink(), Prepare(welcome(8))]
    assert (client.session.work, client.session.task) == (Work.PREPARING, None)
    assert client.hear(ACK) == client.hear(task()) == []
    assert client.current_work() is Work.PREPARING


def test_tasks_before_the_client_is_ready_or_of_another_run_are_ignored() -> None:
    client = Client()
    client.join()
    assert client.hear(task()) == []
    client.feed(Prepared, READY)
    assert client.hear(task(run=8)) == []
    assert client.current_work() is Work.IDLE


def test_progress_is_sent_on_for_the_task_at_hand_only() -> None:
    client = Client().work()
    current = Progress(RUN, 1, 0, 3, 10)
    assert client.feed(Progressed, current) == [Send(current)]
    assert client.feed(Progressed, Progress(RUN, 1, 1, 3, 10)) == []
    client.cut()
    assert client.feed(Progressed, current) == []
    client.made()
    client.join()
    assert client.feed(Progressed, current) == []


# The uplink


def test_a_small_uplink_is_sent_at_once_and_kept_until_it_is_acknowledged() -> None:
    client = Client().work()
    assert client.made(SMALL) == [SendUplink()]
    assert client.current_work() is Work.HOLDING
    assert client.hear(ACK) == [DropUplink()]
    assert client.current_work() is Work.IDLE
    assert client.hear(ACK) == []


def test_a_large_uplink_is_offered_and_sent_once_granted() -> None:
    client = Client().work()
    assert client.made(LARGE) == [Send(OFFER)]
    assert client.hear(Grant(RUN, 1, 1)) == client.hear(Grant(8, 1, 0)) == []
    assert client.hear(GRANT) == [SendUplink()]
    assert client.hear(GRANT) == [SendUplink()]
    assert client.hear(ACK) == [DropUplink()]
    assert client.hear(GRANT) == []


@pytest.mark.parametrize("ack", [Ack(8, 1, 0), Ack(RUN, 2, 0), Ack(RUN, 1, 1)])
def test_an_acknowledgement_of_something_else_drops_nothing(ack: Ack) -> None:
    client = Client().hold()
    assert client.hear(ack) == []
    assert client.current_work() is Work.HOLDING


def test_an_uplink_is_sent_again_after_every_welcome() -> None:
    client = Client().hold()
    for _ in range(3):
        client.cut()
        assert client.join() == [Say("joined run run-7"), SendUplink(), Send(READY)]
        assert client.hear(task()) == []
    client.hear(ACK)
    client.cut()
    assert client.join() == [Say("joined run run-7"), Send(READY)]


def test_a_large_uplink_is_offered_again_after_a_welcome() -> None:
    client = Client().hold(LARGE)
    client.hear(GRANT)
    client.cut()
    assert client.join() == [Say("joined run run-7"), Send(OFFER), Send(READY)]


def test_an_uplink_that_is_made_without_a_link_waits_for_the_welcome() -> None:
    client = Client().work()
    client.cut()
    assert client.made() == []
    client.tick()
    assert client.session.link is Link.JOINING
    assert client.hear(welcome())[-2:] == [SendUplink(), Send(READY)]


def test_a_lost_link_does_not_stop_the_training() -> None:
    client = Client().work()
    client.cut()
    assert client.join() == [Say("joined run run-7"), Send(READY)]
    assert client.current_work() is Work.WORKING
    assert client.made() == [SendUplink()]


def test_the_same_task_again_changes_nothing() -> None:
    client = Client().work()
    assert client.hear(task()) == []
    client.made(LARGE)
    assert client.hear(task()) == []
    assert client.current_work() is Work.HOLDING


@pytest.mark.parametrize(("size_bytes", "sent"), [(SMALL, SendUplink()), (LARGE, Send(OFFER))])
def test_an_uplink_that_came_too_early_is_sent_once_more_when_it_is_asked_for(size_bytes: int, sent: Send) -> None:
    client = Client().hold(size_bytes)
    assert client.hear(refusal("not_open", round=1)) == []
    assert client.current_work() is Work.HOLDING
    assert client.hear(task()) == [sent]
    assert client.hear(task()) == []


def test_an_uplink_that_was_granted_after_it_came_too_early_is_not_sent_once_more() -> None:
    client = Client().hold(LARGE)
    client.hear(refusal("not_open", round=1))
    assert client.hear(GRANT) == [SendUplink()]
    assert client.hear(task()) == []


@pytest.mark.parametrize("newer", [task(2), task(1, 1)])
def test_a_newer_task_replaces_the_one_at_hand(newer: Task) -> None:
    for client in (Client().work(), Client().hold()):
        assert client.hear(newer) == [DropUplink(), StartTask(newer)]
        assert client.current_work() is Work.WORKING
        assert client.made(round=1, exchange=0) == [DropUplink()]
        assert client.current_work() is Work.WORKING


# Refusals


def test_a_stale_refusal_drops_the_uplink_and_the_next_task_is_taken() -> None:
    client = Client().hold()
    told = Say("the coordinator refused the update (stale): for a reason")
    assert client.hear(refusal("stale", round=2)) == [told, DropUplink()]
    assert client.current_work() is Work.IDLE
    assert client.hear(task(2)) == [DropUplink(), StartTask(task(2))]


@pytest.mark.parametrize("code", ["not_in_cohort", "malformed"])
def test_other_refusals_drop_the_uplink_too(code: str) -> None:
    client = Client().hold()
    assert client.hear(refusal(code, round=1))[-1] == DropUplink()
    assert client.current_work() is Work.IDLE


def test_a_task_whose_uplink_was_refused_may_be_given_again() -> None:
    client = Client().hold()
    client.hear(refusal("malformed", round=1))
    assert client.hear(task()) == [DropUplink(), StartTask(task())]


def test_a_duplicate_is_kept_until_its_acknowledgement() -> None:
    client = Client().hold()
    for round in (1, 2):  # the run may have gone on since
        assert client.hear(refusal("duplicate", round=round)) == []
        assert client.current_work() is Work.HOLDING
    assert client.hear(ACK) == [DropUplink()]


def test_a_refusal_of_an_older_update_does_not_drop_the_newer_one() -> None:
    client = Client().hold()
    assert client.hear(refusal("stale", round=1)) == [Say("the coordinator refused the update (stale): for a reason")]
    assert client.current_work() is Work.HOLDING
    client.hear(task(2))
    assert client.hear(refusal("stale", round=2)) == [Say("the coordinator refused the update (stale): for a reason")]
    assert client.current_work() is Work.WORKING


@pytest.mark.parametrize("code", ["version", "duplicate_client", "feature_dim", "label_map", "client_id", "model"])
def test_a_permanent_refusal_ends_the_client_with_code_3(code: str) -> None:
    for client in (Client(), Client().prepare(), Client().hold()):
        text = f"refused by the coordinator ({code}): for a reason"
        assert client.hear(refusal(code, permanent=True)) == [Exit(ExitCode.REFUSED, text)]


# The end


@pytest.mark.parametrize(
    ("finish", "code", "reason"),
    [
        (Finish(RUN, "finished"), 0, "the run is over: finished"),
        (Finish(RUN, "failed", "no quorum"), 4, "the run is over: failed (no quorum)"),
        (Finish(RUN, "interrupted", "stopped"), 5, "the run is over: interrupted (stopped)"),
        (Finish(RUN, "of another version"), 5, "the run is over: of another version"),
    ],
)
def test_once_the_end_of_the_run_ends_the_client(finish: Finish, code: int, reason: str) -> None:
    assert Client(once=True).prepare().hear(finish) == [Exit(ExitCode(code), reason)]


def test_otherwise_the_client_stays_for_the_next_run() -> None:
    client = Client(once=False).hold()
    text = "the run is over: finished; waiting for the next one; trying again, at most every 20 s"
    goodbye = Send(Goodbye("the run is over: finished"))
    assert client.hear(Finish(RUN, "finished")) == [goodbye, DropUplink(), EndTrainer(), CloseLink(), Say(text)]
    assert (client.session.work, client.session.link) == (Work.NONE, Link.DOWN)
    client.tick()
    assert client.hear(welcome(8)) == [Say("joined run run-8"), DropUplink(), Prepare(welcome(8))]


def test_the_same_run_is_prepared_anew_after_it_was_over() -> None:
    client = Client(once=False).hold()
    client.hear(Finish(RUN, "interrupted"))
    client.tick()
    assert client.hear(welcome())[1:] == [DropUplink(), Prepare(welcome())]
    assert client.feed(Prepared, READY) == [Send(READY)]
    assert client.hear(task()) == [DropUplink(), StartTask(task())]


def test_the_end_of_another_run_is_ignored() -> None:
    client = Client().work()
    assert client.hear(Finish(8, "finished")) == []
    assert client.current_work() is Work.WORKING
