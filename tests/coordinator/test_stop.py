"""Which run is meant where none is named."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Literal

import psutil
import pytest

from coordinator import cli
from coordinator.config import load
from coordinator.service.orders import SOCKET
from coordinator.service.place import Place
from coordinator.service.queue import Entry, Queue, service_of
from coordinator.stop import only_run
from coordinator.store.run_folder import RunFolder
from coordinator.whereabouts import whereabouts
from models.spec import ConfigError
from tests.coordinator.report.runs import RecordedRun
from tests.coordinator.stores import figures, stored_run
from wire.exit_codes import ExitCode


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in a folder of its own, where no service is meant but its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROTOEDGE_SERVICE", raising=False)


@pytest.mark.parametrize("place", ["runs", "service/runs"])
def test_the_run_that_goes_on_here_is_meant_and_none_that_is_over_or_was_killed(place: str) -> None:
    RecordedRun(Path("runs")).end()
    RecordedRun(Path("runs")).leave()
    recorded = RecordedRun(Path(place))
    assert only_run() == recorded.settle().path
    recorded.leave()


def test_a_service_in_this_folder_has_its_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROTOEDGE_SERVICE", str(Path.cwd()))
    recorded = RecordedRun(Path("runs"))
    assert only_run().resolve() == recorded.settle().path.resolve()
    recorded.leave()


def test_where_several_go_on_they_are_named_and_one_is_to_be_chosen() -> None:
    recorded = sorted((RecordedRun(Path("runs")) for _ in range(2)), key=lambda run: run.folder.path)
    one, other = (run.settle().path for run in recorded)
    with pytest.raises(ConfigError) as refusal:
        only_run()
    told = f"stop: expected one run that goes on here, got {one}, {other}; name one: coordinator stop {one}"
    assert str(refusal.value) == told
    for run in recorded:
        run.leave()


def test_where_none_goes_on_it_is_said_where_it_was_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    RecordedRun(Path("runs")).leave()
    assert cli.main(["stop"]) == ExitCode.BAD_CONFIG
    told = "stop: no run goes on in runs and service/runs; name its folder or address: coordinator stop RUN"
    assert capsys.readouterr().err == f"coordinator: {told}\n"


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_run_that_its_service_would_go_on_with_is_not_said_to_be_over(
    state: Literal["queued", "running"], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(Path("service/runs"), "serve")
    Queue(Path("service")).put(Entry(folder.run_id, state))
    assert cli.main(["stop", folder.run_id]) == ExitCode.BAD_CONFIG
    told = capsys.readouterr().err
    assert "service, started again, goes on with it; start that, then `coordinator stop" in told


def test_a_run_in_memory_that_is_over_is_told_as_any(capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder.create(load(None, ["run.store=memory"]), "20260131-235959")
    folder.write_summary(figures(outcome="finished"))
    assert cli.main(["stop", str(folder.path)]) == ExitCode.FINISHED
    assert capsys.readouterr().out == f"{folder.run_id} was over already; its outcome: finished\n"


@pytest.mark.parametrize("outcome", ["finished", "cancelled"])
def test_a_run_of_a_service_that_is_over_is_told_whether_that_is_at_work_or_not(
    outcome: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(Path("service/runs"), "serve")
    Queue(Path("service")).put(Entry(folder.run_id, "over", outcome))
    assert cli.main(["stop", folder.run_id]) == ExitCode.FINISHED
    assert capsys.readouterr().out == f"{folder.run_id} was over already; its outcome: {outcome}\n"


def test_a_run_that_no_process_here_has_may_have_been_killed(capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored_run(Path("runs"), "serve")
    assert cli.main(["stop", str(folder.path)]) == ExitCode.FINISHED
    assert "was killed, or runs elsewhere" in capsys.readouterr().out


@pytest.mark.parametrize("is_renamed", [False, True])
def test_a_service_is_not_ended_for_one_of_its_runs_that_its_queue_does_not_know(
    is_renamed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(psutil.Process, "terminate", lambda process: pytest.fail("ended"))
    place, recorded = Place(Path("service")), RecordedRun(Path("service/runs"))
    recorded.put_fact("run_id", recorded.folder.run_id)
    path = recorded.settle().path
    renamed = path.rename(path.with_name("moved")) if is_renamed else path
    assert cli.main(["stop", str(renamed)]) == ExitCode.BAD_CONFIG
    told = f"process {os.getpid()}, which has this run, is the service in {place.path}, whose other runs would end too"
    by_name = f"PROTOEDGE_SERVICE={place.path} coordinator cancel {path.name}"
    assert (
        capsys.readouterr().err == f"coordinator: {renamed}: {told}; have the service end this one alone: {by_name}\n"
    )
    renamed.rename(path)
    recorded.leave()
    place.leave()


HERE = "its service in {} goes on with it by itself, unless you `coordinator cancel {}`"
AWAY = "its service in {}, started again, goes on with it"


@pytest.mark.parametrize(
    ("state", "is_at_work", "then"),
    [("queued", True, HERE), ("queued", False, AWAY), ("running", False, AWAY), ("over", True, "")],
)
def test_a_process_that_goes_on_alone_with_a_run_of_a_service_is_ended_and_it_is_told_who_has_it_then(
    state: Literal["queued", "running", "over"],
    is_at_work: bool,
    then: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded = RecordedRun(Path("service/runs"))
    folder = recorded.settle()
    Queue(Path("service")).put(Entry(folder.run_id, state, "failed" if state == "over" else ""))

    def terminate(process: psutil.Process) -> None:
        recorded.leave()
        folder.write_summary(figures(outcome="interrupted", reason="stopped by SIGTERM"))

    monkeypatch.setattr(psutil.Process, "terminate", terminate)
    monkeypatch.setattr("coordinator.stop._is_there", lambda process: False)
    monkeypatch.setattr("coordinator.client_api.is_at_work", lambda service: is_at_work)
    assert cli.main(["stop", folder.run_id]) == ExitCode.FINISHED
    more = f"; {then.format(folder.path.parents[1].resolve(), folder.run_id)}" if then else ""
    assert capsys.readouterr().out == f"{folder.run_id} is stopped; its outcome: interrupted{more}\n"


def test_a_service_is_known_by_its_socket_where_the_file_of_its_lock_is_gone(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("stop")
    monkeypatch.chdir(folder)
    process = psutil.Process()
    monkeypatch.setattr(psutil.Process, "open_files", lambda process: [])
    assert service_of(process) is None
    with socket.socket(socket.AF_UNIX) as desk:
        desk.bind(SOCKET)
        assert service_of(process) == folder
    assert service_of(process) is None


def test_a_process_of_another_account_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def terminate(process: psutil.Process) -> None:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "terminate", terminate)
    recorded = RecordedRun(Path("runs"))
    assert cli.main(["stop", str(recorded.settle().path)]) == ExitCode.BAD_CONFIG
    assert f"process {os.getpid()}, which has {recorded.folder.run_id}, is another" in capsys.readouterr().err
    recorded.leave()


@pytest.mark.parametrize("is_ended_by", ["itself, just before", "the signal, and is taken note of between two looks"])
def test_a_process_that_is_gone_in_that_moment_is_stopped(
    is_ended_by: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(process: psutil.Process) -> None:
        raise psutil.NoSuchProcess(process.pid)

    recorded = RecordedRun(Path("runs"))
    path = recorded.settle().path
    monkeypatch.setattr(psutil.Process, "terminate", gone if "itself" in is_ended_by else lambda process: None)
    found = whereabouts(recorded.folder)
    with monkeypatch.context() as patch:
        patch.setattr("coordinator.stop.whereabouts", lambda folder: found)
        patch.setattr("coordinator.stop.service_of", lambda process: None)
        patch.setattr(psutil.Process, "status", gone)
        assert cli.main(["stop", str(path)]) == ExitCode.FINISHED
    assert f"{recorded.folder.run_id} is stopped" in capsys.readouterr().out
    recorded.leave()
