"""What Python is told of the runs of a service."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from coordinator import client_api
from coordinator.client_api import Result, Results
from coordinator.metrics.tally import RoundLine
from coordinator.service.orders import RunState
from tests.coordinator.report.runs import RecordedRun
from tests.coordinator.stores import stored_run


def test_the_table_of_results_keeps_all_figures_whatever_the_runs_are_called() -> None:
    run_id = "a-run-of-a-longer-name-20260131-235959-00ff"
    result = Result(run_id, "tinyproto-fp", 0, "interrupted", 1000, 0.9123, 0.9876, 170_291, 160_768)
    header, row = str(Results([result])).splitlines()
    columns = ["run", "method", "seed", "outcome", "rounds", "rule", "last", "best", "encoded up", "encoded down"]
    assert re.split(" {2,}", header) == columns
    assert row.split()[-4:] == ["166.3", "KiB", "157.0", "KiB"]


def test_of_a_run_without_an_end_it_is_told_what_it_has_come_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stored_run(tmp_path, "serve")
    state = RunState(folder.run_id, str(folder.path), "fedproto", "running", round=3, num_rounds=10)
    monkeypatch.setattr(client_api, "state", lambda run_id, service: state)
    results = client_api.results([folder.run_id])
    assert results == [Result(folder.run_id, "fedproto", 0, "unfinished", 0, None, None, 0, 0, rule="local_prototype")]
    assert str(results).splitlines()[1].split()[-8:] == ["0", "local_prototype", "n/a", "n/a", "0", "B", "0", "B"]


def test_a_run_that_cannot_be_read_costs_the_others_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, broken = stored_run(tmp_path / "whole", "serve"), stored_run(tmp_path / "broken", "serve")
    broken.config_path.write_text("[run\n")
    states = {
        folder.run_id: RunState(folder.run_id, str(folder.path), "fedproto", "over", outcome="finished")
        for folder in (whole, broken)
    }
    monkeypatch.setattr(client_api, "state", lambda run_id, service: states[run_id])
    first, second = results = client_api.results([broken.run_id, whole.run_id])
    assert (first.outcome, first.seed, second.outcome, second.seed) == ("unreadable", None, "unfinished", 0)
    assert str(broken.config_path) in first.fault
    assert str(results).splitlines()[-1] == first.fault


def test_a_damaged_line_costs_who_watches_that_round_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RecordedRun(tmp_path).end()
    lines = folder.metrics_path.read_bytes().splitlines()
    folder.metrics_path.write_bytes(b"\n".join([b"\xff\x00{[junk", b"null", *lines[:-1], lines[-1][:30], b""]))
    over = RunState(folder.run_id, str(folder.path), "two", "over", outcome="finished")
    states = iter([msgspec.structs.replace(over, state="running"), over])
    monkeypatch.setattr(client_api, "state", lambda run_id, service: next(states))
    rounds = [event.round for event in client_api.watch(folder.run_id) if isinstance(event, RoundLine)]
    assert rounds == [1]
