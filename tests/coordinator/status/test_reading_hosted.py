"""Where a run of a service stands, by its queue, its word and its store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest

from coordinator.service.orders import RunState
from coordinator.service.queue import RUNS, Entry, Queue
from coordinator.status.reading import read_status
from coordinator.status.text import format_status
from models.spec import ConfigError
from tests.coordinator.report.runs import RecordedRun
from tests.coordinator.stores import figures, stored_run


def test_a_run_whose_end_its_service_could_not_write_is_over_by_its_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    Queue(tmp_path).put(Entry(folder.run_id, "running"))
    over = RunState(folder.run_id, str(folder.path), "m", "over", "interrupted", told="database or disk is full")
    monkeypatch.setattr("coordinator.client_api.state", lambda run_id, service: over)
    told = format_status(read_status(folder.path)).splitlines()
    assert told[0].endswith("over (interrupted: database or disk is full)")
    assert told[2] == f"to go on: coordinator resume {folder.run_id}"


def test_a_run_that_another_process_goes_on_with_is_not_over_by_the_word_of_its_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = RecordedRun(tmp_path / RUNS, mode="serve")
    folder = recorded.settle()
    Queue(tmp_path).put(Entry(folder.run_id, "over", "interrupted", "stopped"))
    over = RunState(folder.run_id, str(folder.path), "m", "over", "interrupted", told="stopped")
    monkeypatch.setattr("coordinator.client_api.state", lambda run_id, service: over)
    status = read_status(folder.path)
    recorded.leave()
    assert (status.state, status.outcome, status.process, status.service) == ("running", None, os.getpid(), None)
    told = format_status(status)
    assert told.startswith(f"{folder.run_id}: {status.method}, in round 3\n")
    assert "to go on" not in told


@pytest.mark.parametrize("is_at_work", [False, True])
def test_a_run_of_a_service_that_too_many_failed_rounds_have_ended_goes_on_alone_with_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_at_work: bool
) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    Queue(tmp_path).put(Entry(folder.run_id, "over", "failed", "3 rounds failed in a row (max_failed_rounds)"))
    monkeypatch.setattr("coordinator.client_api.is_at_work", lambda service: is_at_work)
    line = f"to go on: coordinator serve --resume {folder.path} --set round.max_failed_rounds=N"
    address = " --set transport.bind=HOST:PORT, an address beside the service's, to which its clients are to go"
    assert format_status(read_status(folder.path)).splitlines()[2] == line + (address if is_at_work else "")


def test_a_service_that_is_at_work_is_not_said_to_go_on_when_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    Queue(tmp_path).put(Entry(folder.run_id, "running"))
    monkeypatch.setattr("coordinator.client_api.is_at_work", lambda service: True)
    assert "started again" not in format_status(read_status(folder.path))


def test_a_run_of_a_service_that_was_killed_says_that_the_service_goes_on_with_it(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    Queue(tmp_path).put(Entry(folder.run_id, "running"))
    status = read_status(folder.path)
    told = f"it was killed, or runs elsewhere; its service in {tmp_path}, started again, goes on with it"
    assert told in format_status(status)
    assert "--resume" not in format_status(status)


def test_a_run_that_its_service_gave_up_has_no_other_process_to_wait_for(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    Queue(tmp_path).put(Entry(folder.run_id, "over", "failed", "internal error"))
    status = read_status(folder.path)
    assert status.outcome == "failed"
    told = format_status(status)
    assert "over (failed: internal error)" in told
    assert f"to go on: coordinator resume {folder.run_id}" in told
    assert "goes on with it" not in told


def test_a_run_whose_service_was_stopped_in_order_goes_on_with_it(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    folder.write_summary(figures(outcome="interrupted", reason="stopped by SIGTERM"))
    Queue(tmp_path).put(Entry(folder.run_id, "running"))
    status = read_status(folder.path)
    assert (status.state, status.outcome) == ("stopped", None)
    told = f"no process of this machine has it; its service in {tmp_path}, started again, goes on with it"
    assert told in format_status(status)
    assert "killed" not in format_status(status)


def test_a_run_that_was_cancelled_before_it_began_is_over(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    folder.store_path.unlink()
    Queue(tmp_path).put(Entry(folder.run_id, "over", "cancelled"))
    status = read_status(folder.path)
    assert (status.state, status.outcome) == ("over", "cancelled")
    assert "over (cancelled)" in format_status(status)
    assert f"to go on: coordinator resume {folder.run_id}" in format_status(status)


@pytest.mark.parametrize("content", [b"", b"no store"])
@pytest.mark.parametrize(("state", "outcome"), [("queued", ""), ("over", "cancelled")])
def test_a_run_whose_store_found_the_disk_full_as_it_was_made_has_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Literal["queued", "over"], outcome: str, content: bytes
) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    folder.store_path.write_bytes(content)
    Queue(tmp_path).put(Entry(folder.run_id, state, outcome))
    now = RunState(folder.run_id, str(folder.path), "m", state, outcome, told="waiting for space on the disk: why")
    monkeypatch.setattr("coordinator.client_api.state", lambda run_id, service: now)
    status = read_status(folder.path)
    assert (status.state, status.outcome or "", status.rounds_completed) == (state, outcome, 0)
    assert ("waiting for space on the disk: why" in format_status(status).splitlines()) == (state == "queued")
    folder.write_metrics(["{}"])  # it has begun: its store is damaged
    with pytest.raises(ConfigError, match="expected the store of a run"):
        read_status(folder.path)


def test_a_run_that_was_cancelled_says_so_once(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    folder.write_summary(figures(outcome="interrupted", reason="stopped"))  # of an earlier time
    Queue(tmp_path).put(Entry(folder.run_id, "over", "cancelled", "cancelled"))
    assert "over (cancelled)" in format_status(read_status(folder.path))


def test_a_queued_run_of_a_service_that_does_not_run_waits_for_that(tmp_path: Path) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    Queue(tmp_path).put(Entry(folder.run_id, "queued"))
    told = f"no process of this machine has it; its service in {tmp_path}, started again, goes on with it"
    assert told in format_status(read_status(folder.path))


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_queued_run_waits_in_the_words_of_its_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    if not has_begun:
        folder.store_path.unlink()
    folder.write_summary(figures(outcome="interrupted"))
    Queue(tmp_path).put(Entry(folder.run_id, "queued"))
    assert read_status(folder.path).waits_for is None  # its service does not run
    waiting = RunState(folder.run_id, str(folder.path), "fedproto", "queued", told="waiting for clients 3/10")
    monkeypatch.setattr("coordinator.client_api.state", lambda run_id, service: waiting)
    status = read_status(folder.path)
    assert (status.state, status.outcome, status.rounds_completed) == ("queued", None, 0)
    assert format_status(status).splitlines()[0].endswith("fedproto, queued")
    assert "waiting for clients 3/10" in format_status(status).splitlines()
