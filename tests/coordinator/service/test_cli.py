"""The commands around a service: what they ask of it, and what they print."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from coordinator import cli, client_api
from coordinator.service.orders import RunState
from coordinator.service.queue import FILE, Entry, Queue
from models.spec import ConfigError
from tests.coordinator.stores import figures, stored_run
from wire.exit_codes import ExitCode

STATES = [
    RunState("a", "/runs/a", "m", "running", "", 3, 10, ["x"], "waiting for updates 1/2, missing y"),
    RunState("b", "/runs/b", "m", "queued", told="waiting for clients 1/2, 2 are here: 1 without cuda"),
    RunState("c", "/runs/c", "m", "over", "finished", num_rounds=10),
    RunState("d", "/runs/d", "", "running", told="its service does not know its round"),
]


def test_submit_prints_the_id(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def submit(config: Path, settings: Sequence[str]) -> str:
        return f"{config} {settings}"

    monkeypatch.setattr(client_api, "submit", submit)
    assert cli.main(["submit", "--config", "run.toml", "--set", "a.b=1"]) == ExitCode.FINISHED
    assert capsys.readouterr().out == "run.toml ['a.b=1']\n"


def test_submit_warns_of_a_module_that_is_not_here_as_check_config_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.setattr(client_api, "submit", lambda config, settings: "run")
    given = ["--set", "model.name=mynet:Tiny", "--set", "data.dataset=digits"]
    told = "coordinator: [model] name = 'mynet:Tiny': there is no such module here; loopback, simulate and every device"
    for command in ("check-config", "submit"):
        assert cli.main([command, *given]) == ExitCode.FINISHED
        assert capsys.readouterr().err.startswith(told)
    (tmp_path / "mynet.py").touch()
    (tmp_path / "run.toml").touch()
    assert cli.main(["submit", "--config", str(tmp_path / "run.toml"), *given]) == ExitCode.FINISHED
    assert capsys.readouterr() == ("run\n", "")


def test_runs_are_a_line_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(client_api, "runs", lambda: STATES)
    assert cli.main(["runs"]) == ExitCode.FINISHED
    assert capsys.readouterr().out.splitlines() == [
        "a  running, in round 3 of 10  waiting for updates 1/2, missing y",
        "b  queued  waiting for clients 1/2, 2 are here: 1 without cuda",
        "c  finished",
        "d  running  its service does not know its round",
    ]
    assert cli.main(["runs", "--format", "json"]) == ExitCode.FINISHED
    rows = json.loads(capsys.readouterr().out)
    assert [(row["run_id"], row["state"], row["round"], row["clients"]) for row in rows] == [
        ("a", "running", 3, ["x"]), ("b", "queued", None, []), ("c", "over", None, []),
        ("d", "running", None, []),
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["resume", "cancel"])
def test_an_order_says_what_became_of_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setattr(client_api, command, lambda run_id: f"what {command} makes of it")
    assert cli.main([command, "a"]) == ExitCode.FINISHED
    assert capsys.readouterr().out == f"a is what {command} makes of it\n"


def test_a_refusal_is_one_line_and_exit_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def cancel(run_id: str) -> str:
        raise ConfigError(f"unknown run {run_id!r}")

    monkeypatch.setattr(client_api, "cancel", cancel)
    assert cli.main(["cancel", "a"]) == ExitCode.BAD_CONFIG
    assert capsys.readouterr().err == "coordinator: unknown run 'a'\n"


def test_a_run_is_named_by_its_folder_or_by_its_id_in_a_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(tmp_path / "runs", "serve")
    folder.log_path.write_text("     0.001  hello\n")
    monkeypatch.setenv("PROTOEDGE_SERVICE", str(tmp_path))
    for name in (folder.run_id, str(folder.path)):
        assert cli.main(["log", name]) == ExitCode.FINISHED
        assert capsys.readouterr().out == "     0.001  hello\n"
    assert cli.main(["status", folder.run_id]) == ExitCode.FINISHED
    assert folder.run_id in capsys.readouterr().out


@pytest.mark.parametrize("command", ["log", "stop", "status", "report"])
def test_a_name_that_no_run_has_is_answered_with_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setenv("PROTOEDGE_SERVICE", str(tmp_path))
    assert cli.main([command, "fedavg-2"]) == ExitCode.BAD_CONFIG
    assert "fedavg-2: expected a run folder with a config.toml, got nothing" in capsys.readouterr().err
    Queue(tmp_path).put(Entry("fedavg-1"))
    assert cli.main([command, "fedavg-2"]) == ExitCode.BAD_CONFIG
    assert capsys.readouterr().err == "coordinator: unknown run 'fedavg-2'; did you mean 'fedavg-1'?\n"
    assert cli.main([command, "fedavg-1"]) == ExitCode.BAD_CONFIG
    expected = f"fedavg-1: its service expects its folder at {tmp_path}/runs/fedavg-1, got nothing there; put it back"
    assert expected in capsys.readouterr().err
    assert cli.main([command, "runs/fedavg-2"]) == ExitCode.BAD_CONFIG
    assert "runs/fedavg-2: expected a run folder" in capsys.readouterr().err


def test_the_log_of_a_run_near_another_file_that_is_called_as_a_queue_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(tmp_path / "runs", "serve")
    folder.log_path.write_text("begun\n")
    (tmp_path / FILE).write_text('{"of": "another program"}')
    assert cli.main(["log", str(folder.path)]) == ExitCode.FINISHED
    assert capsys.readouterr().out == "begun\n"


def test_a_log_is_followed_until_its_run_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(tmp_path, "serve")
    folder.log_path.write_text("begun\n")

    def pass_time(seconds: float) -> None:
        with folder.log_path.open("a") as log:
            log.write("over\n")
        folder.write_summary(figures(outcome="finished"))

    monkeypatch.setattr("time.sleep", pass_time)
    assert cli.main(["log", str(folder.path), "--follow"]) == ExitCode.FINISHED
    assert capsys.readouterr().out == "begun\nover\n"


def test_a_log_that_is_gone_is_told_and_none_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored_run(tmp_path, "serve")
    folder.log_path.unlink(missing_ok=True)
    assert cli.main(["log", str(folder.path)]) == ExitCode.BAD_CONFIG
    told = f"coordinator: {folder.log_path}: expected what the run has said, got nothing\n"
    assert capsys.readouterr() == ("", told)
    assert not folder.log_path.exists()


def test_the_log_of_a_run_that_never_began_ends_when_it_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(tmp_path / "runs", "serve")
    queue = Queue(tmp_path)
    queue.put(Entry(folder.run_id))
    monkeypatch.setattr("time.sleep", lambda seconds: queue.put(Entry(folder.run_id, "over", "cancelled")))
    assert cli.main(["log", str(folder.path), "--follow"]) == ExitCode.FINISHED
    assert capsys.readouterr().out == ""


def test_the_log_of_a_run_that_is_queued_says_that_it_has_not_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(tmp_path / "runs", "serve")
    Queue(tmp_path).put(Entry(folder.run_id))
    assert cli.main(["log", str(folder.path)]) == ExitCode.FINISHED
    assert capsys.readouterr() == ("", f"{folder.run_id} is queued and has not begun\n")


def test_the_log_of_a_run_that_was_stopped_is_followed_once_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(tmp_path / "runs", "serve")
    folder.write_summary(figures(outcome="interrupted"))
    queue = Queue(tmp_path)
    queue.put(Entry(folder.run_id))

    def pass_time(seconds: float) -> None:
        folder.log_path.write_text("resumed\n")
        queue.put(Entry(folder.run_id, "over", "finished"))

    monkeypatch.setattr("time.sleep", pass_time)
    assert cli.main(["log", str(folder.path), "--follow"]) == ExitCode.FINISHED
    assert capsys.readouterr().out == "resumed\n"
