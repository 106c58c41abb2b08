"""What a session does about its trainer: failures, deaths and restarts."""

from __future__ import annotations

from edge_client.session import MAX_TRAINER_RESTARTS
from edge_client.session_events import (
    Exit,
    Instruction,
    LinkLost,
    Prepared,
    RestartTrainer,
    Say,
    Send,
    SendUplink,
    TrainerDied,
    TrainerFailed,
)
from edge_client.waiting import Work
from tests.edge_client.session_driver import READY, RUN, Client, exit_code, task, welcome
from wire.exit_codes import ExitCode
from wire.messages import Finish, Ping

RESTARTED = [Say("the trainer died: killed; starting it again"), RestartTrainer()]


def die(client: Client) -> list[Instruction]:
    return client.feed(TrainerDied, "killed")


def test_a_trainer_that_cannot_go_on_ends_the_client_with_its_code() -> None:
    found = Client().work().feed(TrainerFailed, "no such file", ExitCode.BAD_CONFIG)
    assert found == [Exit(ExitCode.BAD_CONFIG, "no such file")]


def test_a_dead_trainer_is_started_again_up_to_the_limit_within_one_task() -> None:
    client = Client().work()
    for _ in range(MAX_TRAINER_RESTARTS):
        assert die(client) == RESTARTED
    assert die(client) == [Exit(ExitCode.FAILED, "the trainer died 4 times: killed")]


def test_a_new_task_resets_the_count_and_the_same_task_does_not() -> None:
    client = Client().work()
    for _ in range(MAX_TRAINER_RESTARTS):
        die(client)
    client.hear(task())
    client.work(2)
    for _ in range(MAX_TRAINER_RESTARTS):
        assert die(client) == RESTARTED
    client.hear(task(2))
    assert exit_code(die(client)) is ExitCode.FAILED


def test_a_new_run_resets_the_count() -> None:
    client = Client(once=False)
    client.join()
    for _ in range(MAX_TRAINER_RESTARTS):
        die(client)
    client.feed(LinkLost, "cut")
    client.tick()
    client.hear(welcome(8))
    assert die(client) == RESTARTED


def test_a_trainer_that_dies_while_it_loads_is_announced_when_it_has_loaded_again() -> None:
    client = Client()
    client.join()
    die(client)
    assert client.current_work() is Work.PREPARING
    assert client.feed(Prepared, READY) == [Send(READY)]


def test_a_trainer_that_dies_in_a_task_goes_on_with_it_unseen_by_the_coordinator() -> None:
    client = Client().work()
    die(client)
    assert client.feed(Prepared, READY) == []
    assert client.current_work() is Work.WORKING
    assert client.made() == [SendUplink()]


def test_a_trainer_that_dies_after_its_task_does_not_cost_the_held_uplink() -> None:
    client = Client().hold()
    die(client)
    assert client.feed(Prepared, READY) == []
    assert client.made() == []
    assert client.current_work() is Work.HOLDING
    client.feed(LinkLost, "cut")
    assert client.join()[-2:] == [SendUplink(), Send(READY)]


def test_the_connection_outlives_the_trainer() -> None:
    client = Client().work()
    die(client)
    assert client.tick() == [Send(Ping())]


def test_between_runs_nobody_cares_for_the_old_trainer() -> None:
    client = Client(once=False).work()
    client.hear(Finish(RUN, "finished"))
    for _ in range(MAX_TRAINER_RESTARTS + 1):
        assert die(client) == []
    assert client.feed(TrainerFailed, "broken", ExitCode.FAILED) == []
    assert client.feed(Prepared, READY) == []
    assert client.current_work() is Work.NONE
