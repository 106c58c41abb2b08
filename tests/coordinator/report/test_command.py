"""`coordinator report`, and the page at the end of a run."""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from coordinator.report import command, rendering
from coordinator.report.forms import AUTOMATIC, EXPORTS, FORMS, PAGE
from coordinator.report.reading import Run
from coordinator.store.stored import NO_STORE
from models.spec import ConfigError, NoSpaceError
from tests.coordinator.report.runs import RecordedRun
from wire.exit_codes import ExitCode


def test_one_run_gets_its_page_in_its_folder(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2")
    assert command.report([run.folder.path], "html", None) == ExitCode.FINISHED
    assert capsys.readouterr().out == f"{run.folder.path}/report.html\n"
    assert run.folder.run_id in run.folder.page_path.read_text()


def test_several_runs_are_compared_where_the_command_is_started(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.chdir(tmp_path)
    command.report([run.folder.path] * 2, "html", None)
    assert capsys.readouterr().out == "comparison.html\n"
    assert (tmp_path / "comparison.html").read_text().startswith("<!doctype html>")


def test_what_is_no_run_is_left_out_beside_others_and_told(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, queued, file = tmp_path / "empty", tmp_path / "queued", tmp_path / "notes.txt"
    empty.mkdir()
    queued.mkdir()
    shutil.copy(run.folder.config_path, queued)
    file.touch()
    assert command.report([empty, run.folder.path, queued, file], "json", None) == ExitCode.FINISHED
    printed = capsys.readouterr()
    assert [each["run_id"] for each in json.loads(printed.out)["runs"]] == [run.folder.run_id]
    assert printed.err.splitlines() == [
        f"coordinator: left out: {empty}: expected a run folder with a config.toml, got a folder without one",
        f"coordinator: left out: {queued}: there is no store.sqlite: {NO_STORE}",
        f"coordinator: left out: {file}: expected a run folder with a config.toml, got a file",
    ]
    with pytest.raises(ConfigError, match="got a folder without one"):
        command.report([empty, queued], "json", None)
    with pytest.raises(ConfigError, match="got nothing"):
        command.report([run.folder.path, tmp_path / "typo"], "json", None)


def test_what_is_damaged_is_told_beside_the_numbers_and_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RecordedRun(tmp_path).end()
    folder.histogram_path.write_text("null")
    told = "histogram.json: expected the samples of each client: Expected `object`, got `null`"
    for form in ("csv", "json"):
        assert command.report([folder.path], form, None) == ExitCode.FINISHED
        assert capsys.readouterr().err == f"coordinator: {folder.path}: {told}\n"
    pytest.importorskip("jinja2")
    command.report([folder.path], PAGE, None)
    page = folder.page_path.read_text()
    assert "histogram.json: expected the samples of each client" in page
    assert "No client has announced" not in page
    command.report([folder.path] * 2, PAGE, tmp_path / "comparison.html")
    assert f"{folder.run_id}: histogram.json: expected" in (tmp_path / "comparison.html").read_text()


def test_numbers_are_printed_or_written(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.report([run.folder.path], "json", None)
    printed = capsys.readouterr().out
    assert json.loads(printed)["runs"][0]["run_id"] == run.folder.run_id
    command.report([run.folder.path], "json", tmp_path / "numbers.json")
    assert (tmp_path / "numbers.json").read_text() == printed


def test_a_table_has_a_line_for_each_run_over_or_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    going_on, killed = RecordedRun(tmp_path / "on"), RecordedRun(tmp_path / "off")
    paths = [going_on.settle().path, killed.leave().path, tmp_path / "on"]
    command.report(paths, "table", None)
    going_on.leave()
    header, *rows, fault = capsys.readouterr().out.splitlines()
    columns = ["run", "method", "seed", "outcome", "rounds", "rule", "last", "best", "encoded up", "encoded down"]
    assert re.split(" {2,}", header) == columns
    assert [row.split()[3] for row in rows] == ["running", "unfinished", "unreadable"]
    assert all(row.split()[4] == "2" for row in rows[:2])  # rounds by now
    assert fault.startswith(str(tmp_path / "on"))
    assert "expected a run folder" in fault


def test_a_file_that_cannot_be_written_is_one_line(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere/page\.html: expected a file to write to, got No such file"):
        command.report([run.folder.path], "csv", tmp_path / "nowhere" / "page.html")


def test_a_file_that_finds_no_space_is_one_line_that_says_what_to_do(run: Run, tmp_path: Path) -> None:
    with pytest.raises(NoSpaceError, match=r"a file to write to, got No space left .*; free some disk space$"):
        command.report([run.folder.path], "csv", Path("/dev/full"))


def test_a_page_that_cannot_be_written_whole_leaves_the_one_that_was_there(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")
    page = run.folder.page_path
    page.write_text("good")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    (told,) = command.leave_behind(run.folder, ["html"])
    assert "No space left" in told
    assert page.read_text() == "good"
    assert not list(run.folder.path.glob(".*draft"))


def test_a_file_that_is_there_keeps_its_mode(run: Run, tmp_path: Path) -> None:
    kept = tmp_path / "kept.csv"
    kept.touch(0o600)
    command.report([run.folder.path], "csv", kept)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text()


def test_what_is_no_file_is_written_to_and_never_replaced(run: Run, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    command.report([run.folder.path], "csv", pipe)
    assert os.read(reading, 1000).startswith(b"run")
    os.close(reading)
    assert pipe.is_fifo()


def test_without_jinja2_one_line_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "jinja2":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    rendering._environment.cache_clear()
    (line,) = command.leave_behind(run.folder, [PAGE])
    assert line == "report: needs the package jinja2: pip install 'protoedge[report]'"


def test_a_run_whose_page_cannot_be_made_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RecordedRun(tmp_path).end()
    monkeypatch.setattr(command, "AUTOMATIC_BYTES", 0)
    assert list(command.leave_behind(folder, [PAGE])) == [
        "report: left out as the run is long; coordinator report makes it"
    ]
    monkeypatch.setattr(command, "AUTOMATIC_BYTES", 2**30)
    monkeypatch.setattr(command, "read_run", lambda path: next(iter(())))
    (line,) = command.leave_behind(folder, [PAGE])
    assert line.startswith("report: StopIteration: ")
    monkeypatch.setattr(command, "read_run", lambda path: path.joinpath("gone").stat())
    (line,) = command.leave_behind(folder, [PAGE])
    assert line == f"report: {folder.path}/gone: No such file or directory; see to the cause"


def test_without_its_metrics_a_run_has_its_page_from_the_store(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    folder = RecordedRun(tmp_path).end()
    folder.metrics_path.unlink()
    assert list(command.leave_behind(folder, [PAGE])) == [f"report: {folder.page_path}"]


def test_each_form_is_made_by_something() -> None:
    assert {"table", *command.TEXTS, *EXPORTS} == set(FORMS)
    assert set(command.MAKERS) == {PAGE, *EXPORTS} == set(AUTOMATIC.values())


def test_a_table_of_nothing_that_can_be_read_is_an_error_and_so_is_a_path_with_nothing(tmp_path: Path) -> None:
    whole = RecordedRun(tmp_path / "whole").end().path
    (tmp_path / "empty").mkdir()
    for paths in ([tmp_path / "empty"], [whole, tmp_path / "nothing"]):
        with pytest.raises(ConfigError, match="expected a run folder"):
            command.report(paths, "table", None)


@pytest.mark.parametrize("form", ["table", "csv"])
def test_where_a_file_is_written_is_told_unless_it_is_what_is_printed_to(
    tmp_path: Path, form: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = RecordedRun(tmp_path / "run").end().path
    command.report([path], form, tmp_path / "out")
    assert capfd.readouterr().out == f"{tmp_path / 'out'}\n"
    with (tmp_path / "printed").open("w") as printed, contextlib.redirect_stdout(printed):
        command.report([path], form, tmp_path / "printed")
    assert (tmp_path / "printed").read_text() == (tmp_path / "out").read_text()
