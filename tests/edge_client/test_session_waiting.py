"""A session whose device must wait before it trains, and one whose samples change."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from edge_client.link import NO_WELCOME, Link
from edge_client.session_events import (
    DropUplink,
    HaltTrainer,
    Held,
    Instruction,
    LinkLost,
    OpenLink,
    Permitted,
    Prepared,
    RestartTrainer,
    Say,
    Send,
    SendUplink,
    StartTask,
    Ticked,
    TrainerDied,
)
from edge_client.waiting import Work
from tests.edge_client.session_driver import HEARTBEAT_S, LARGE, READY, RUN, Client, task, welcome
from wire.messages import Ack, Ping, Pong, Standby

OTHERS = msgspec.structs.replace(READY, num_train=7, class_counts=[3, 4])


def wait_for(client: Client, what: str) -> list[Instruction]:
    return client.feed(Permitted, what)


def come_back(client: Client) -> list[Instruction]:
    client.feed(LinkLost, "cut")
    client.tick()
    return client.hear(welcome())


def test_a_trainer_at_work_stands_still_while_there_is_something_to_wait_for() -> None:
    client = Client().work()
    assert wait_for(client, "night") == [Say("waiting for night"), Send(Ping(waits_for="night")), HaltTrainer(True)]
    assert wait_for(client, "night") == []
    assert wait_for(client, "power") == [Say("waiting for power"), Send(Ping(waits_for="power"))]
    assert wait_for(client, "") == [Say("no longer waiting"), Send(Ping()), HaltTrainer(False)]


def test_a_task_that_comes_meanwhile_is_taken_and_waits() -> None:
    client = Client().prepare()
    assert HaltTrainer(True) not in wait_for(client, "night")
    assert client.hear(task()) == [DropUplink(), StartTask(task()), HaltTrainer(True)]
    assert client.hear(task(2)) == [DropUplink(), StartTask(task(2))]
    assert HaltTrainer(False) in wait_for(client, "")


def test_a_task_that_waits_itself_is_told_of_and_goes_on() -> None:
    client = Client().work()
    assert client.feed(Held, "space") == [Send(Ping(waits_for="space"))]
    assert client.tick() == [Send(Ping(waits_for="space"))]
    assert come_back(client)[-1] == Send(Ping(waits_for="space"))
    assert wait_for(client, "night")[1:] == [Send(Ping(waits_for="night")), HaltTrainer(True)]
    assert wait_for(client, "")[1:] == [Send(Ping(waits_for="space")), HaltTrainer(False)]
    assert client.feed(Held, "") == [Send(Ping())]


def test_so_is_a_trainer_that_waits_as_it_prepares_for_the_run() -> None:
    client = Client()
    client.join()
    assert client.feed(Held, "space") == [Send(Ping(waits_for="space"))]
    assert client.tick() == [Send(Ping(waits_for="space"))]
    assert come_back(client)[-1] == Send(Ping(waits_for="space"))
    assert Send(Ping(waits_for="space")) not in client.hear(welcome(8))
    client.feed(Held, "space")
    assert client.feed(Held, "") == [Send(Ping())]
    assert client.feed(Prepared, READY) == [Send(READY)]


def test_what_a_task_waited_for_is_forgotten_with_it_and_with_its_trainer() -> None:
    client = Client().work()
    client.feed(Held, "space")
    client.feed(TrainerDied, "why")
    assert client.tick() == [Send(Ping())]
    client.feed(Held, "space")
    client.made()
    assert come_back(client)[-1] == Send(READY)


def test_it_stays_connected_and_every_ping_says_what_it_waits_for() -> None:
    client = Client().work()
    wait_for(client, "night")
    assert client.tick() == [Send(Ping(waits_for="night"))]
    assert client.session.heartbeat_s == HEARTBEAT_S


def test_a_coordinator_that_it_comes_back_to_is_told_at_once() -> None:
    client = Client()
    wait_for(client, "night")
    assert Send(Ping(waits_for="night")) in client.join()
    client.feed(Prepared, READY)
    assert come_back(client)[-2:] == [Send(READY), Send(Ping(waits_for="night"))]


def test_what_is_done_is_sent_while_it_waits() -> None:
    client = Client().hold()
    assert HaltTrainer(True) not in wait_for(client, "night")
    assert SendUplink() in come_back(client)


def test_without_a_link_people_alone_are_told() -> None:
    client = Client().work()
    client.cut()
    assert wait_for(client, "night") == [Say("waiting for night"), HaltTrainer(True)]


def test_another_run_lets_the_trainer_load_whatever_there_is_to_wait_for() -> None:
    client = Client(once=False).work()
    wait_for(client, "night")
    client.cut()
    client.tick()
    assert client.hear(welcome(8))[-1] == HaltTrainer(False)


def test_a_trainer_that_is_killed_while_it_stands_still_is_started_again_and_stands_still() -> None:
    client = Client().work()
    wait_for(client, "night")
    found = client.feed(TrainerDied, "killed")
    assert found[-1] == RestartTrainer()
    assert client.current_work() is Work.WORKING
    assert HaltTrainer(False) in wait_for(client, "")


def test_other_samples_are_announced_at_once_and_the_same_ones_are_not() -> None:
    client = Client().work()
    assert client.feed(Prepared, OTHERS) == [Send(OTHERS)]
    assert client.feed(Prepared, OTHERS) == []


def test_they_are_announced_ahead_of_the_uplink_that_is_measured_by_them() -> None:
    client = Client().work()
    client.cut()
    assert client.feed(Prepared, OTHERS) == []
    assert client.made() == []
    client.tick()
    assert client.hear(welcome())[-2:] == [Send(OTHERS), SendUplink()]
    client.hear(Ack(RUN, 1, 0))
    client.work(2)
    client.made(round=2)
    assert come_back(client)[-2:] == [SendUplink(), Send(OTHERS)]


# What people are told of a wait that goes on


def notes(client: Client, until: float) -> list[tuple[float, str]]:
    """Let time pass, with a coordinator that is heard; return what people are told, and when."""
    told = []
    while (client.session.next_wakeup() or 0.0) <= until:
        found = client.tick()
        told += [(client.at, instruction.text) for instruction in found if isinstance(instruction, Say)]
        if client.current_link() is Link.UP:
            client.hear(Pong())
    return told


def test_a_dead_coordinator_is_told_of_every_30_s_with_the_last_reason() -> None:
    client = Client().prepare()
    client.at = 100.0
    client.cut("nobody listens")
    silent = NO_WELCOME
    (_, first), *others = notes(client, 160.0)
    assert first == f"{silent}; trying again, at most every 20 s"
    assert others == [
        (130.0, f"still waiting, after 30 s, for the coordinator: {silent}"),
        (160.0, f"still waiting, after 60 s, for the coordinator: {silent}"),
    ]
    assert len(notes(client, 100.0 + 3600.0)) == 118


def test_after_a_welcome_a_wait_begins_anew() -> None:
    client = Client().prepare()
    client.at = 29.0
    client.cut()
    assert len(notes(client, 58.0)) == 1
    while OpenLink() not in client.tick():
        pass
    client.hear(welcome())
    joined_at = client.at
    assert notes(client, joined_at + 29.9) == []
    assert notes(client, joined_at + 30.0) == [(joined_at + 30.0, "still waiting, after 30 s, for the next task")]


def stand_by(client: Client) -> None:
    client.feed(Ticked)
    client.hear(Standby(15.0))


@pytest.mark.parametrize(
    ("begin", "what"),
    [
        (stand_by, "the next run"),
        (lambda client: client.join(), "the trainer to load data and model"),
        (lambda client: client.prepare(), "the next task"),
        (lambda client: client.work(), "the trainer to do its task"),
        (lambda client: client.hold(LARGE), "the coordinator to take the update"),
        (lambda client: wait_for(client.work(), "night"), "night"),
    ],
)
def test_every_wait_says_what_it_is_for(begin: Callable[[Client], object], what: str) -> None:
    client = Client(once=False)
    begin(client)
    assert notes(client, 60.0) == [
        (30.0, f"still waiting, after 30 s, for {what}"),
        (60.0, f"still waiting, after 60 s, for {what}"),
    ]


def test_a_client_that_goes_from_one_thing_to_the_next_tells_of_no_wait() -> None:
    client = Client().prepare()
    for round in range(1, 20):
        client.at += 20.0
        client.work(round)
        client.made(round=round)
        client.hear(Ack(RUN, round, 0))
    assert notes(client, client.at + 29.0) == []
