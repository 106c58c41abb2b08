"""A run on this machine, from its config to its exit code."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from coordinator.app import RunRequest, recorded
from coordinator.cli import main
from coordinator.config import load
from coordinator.metrics.ledger import Ledger
from coordinator.store.record import RunRecord
from coordinator.store.run_folder import RunFolder
from coordinator.store.store import StoreError
from models.methods import find
from models.spec import ConfigError, RunSpec
from tests.coordinator.report.runs import RecordedRun
from wire.exit_codes import ExitCode
from wire.sockets import signals as wire_signals
from wire.sockets.systemd import READY


@pytest.fixture(autouse=True)
def _signals_kept() -> Iterator[None]:
    """Let no later test find ignored what a command ignores at its end."""
    before = {number: signal.getsignal(number) for number in wire_signals.SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_run_that_is_over_is_no_failure_of_the_service_that_would_go_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RecordedRun(tmp_path).end()
    folder.store_path.with_name("store.sqlite-wal").touch()  # as a kill before the store's end leaves it
    config = load(folder.config_path, ["report.page=false"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        request = RunRequest(config, "serve", tmp_path, folder=folder)
        assert recorded(request, lambda spec, record: pytest.fail("it must not run again")) == ExitCode.FINISHED
        assert manager.recv(64).decode() == READY
    assert "the run is finished already" in capsys.readouterr().out
    assert not folder.store_path.with_name("store.sqlite-wal").exists()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            OSError(28, "No space left on device"),
            ["coordinator: standard output: No space left on device; what the run"],
        ),
        (BrokenPipeError(32, "Broken pipe"), []),
    ],
)
def test_a_run_whose_output_cannot_be_written_goes_on_and_ends_as_ever(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: OSError,
    told: list[str],
) -> None:
    class Lost(io.StringIO):
        def write(self, text: str) -> int:
            raise error

    config = load(None, [f"run.dir={tmp_path}", "data.dataset=digits", "report.page=false"])
    monkeypatch.setattr("sys.stdout", Lost())
    assert recorded(RunRequest(config, "serve", tmp_path), lambda spec, record: ExitCode.FAILED) == ExitCode.FAILED
    said = [line for line in capsys.readouterr().err.splitlines() if "output" in line]
    assert [line[: len(begin)] for line, begin in zip(said, told, strict=True)] == told


def test_a_run_that_finds_the_disk_full_at_its_start_ends_with_a_code_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> NoReturn:
        raise StoreError("store: database or disk is full; free some disk space", is_full=True)

    monkeypatch.setattr("coordinator.app.RunRecord", full)
    started = ["loopback", "--set", f"run.dir={tmp_path}", "--set", "data.dataset=digits"]
    assert main(started) == ExitCode.NO_SPACE
    why = "store: database or disk is full; free some disk space"
    told = f"coordinator: [run] dir: {why}; nothing has run, so the run folder is removed\n"
    assert told in capsys.readouterr().err


def test_so_does_one_whose_data_there_is_no_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    datasets = pytest.importorskip("torchvision.datasets")

    def fetch(root: Path, train: bool, download: bool) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(datasets, "CIFAR10", fetch)
    data = [f"data.root={tmp_path}", "data.dataset=CIFAR10", "data.download=true", f"run.dir={tmp_path}/runs"]
    assert main(["simulate", *(part for setting in data for part in ("--set", setting))]) == ExitCode.NO_SPACE
    assert capsys.readouterr().err.endswith("; free some disk space\n")


SIGNALS = (signal.SIGTERM, signal.SIGINT)


class LeftError(Exception):
    """In the place of the end of the process."""


@pytest.fixture
def handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """See that the signals mean afterwards what they did before, and that an end of the process is an error."""

    def leave(code: int) -> NoReturn:
        raise LeftError(code)

    monkeypatch.setattr(os, "_exit", leave)
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_run_that_is_stopped_before_it_handles_signals_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        signal.raise_signal(number)
        raise AssertionError

    request = RunRequest(load(None, [f"run.dir={tmp_path / 'runs'}"]), "loopback", tmp_path)
    with pytest.raises(LeftError, match=str(int(ExitCode.INTERRUPTED))):
        recorded(request, go)
    assert list((tmp_path / "runs").iterdir()) == []
    said = capsys.readouterr().err
    assert said == f"stopped by {number.name}; nothing has run, so the run folder is removed\n"


@pytest.mark.usefixtures("handlers")
def test_one_that_goes_on_is_stopped_as_early_and_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def begin(spec: RunSpec, record: RunRecord) -> ExitCode:
        return ExitCode.INTERRUPTED

    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError

    config = load(None, [f"run.dir={tmp_path / 'runs'}"])
    assert recorded(RunRequest(config, "loopback", tmp_path), begin) == ExitCode.INTERRUPTED
    (path,) = (tmp_path / "runs").iterdir()
    capsys.readouterr()
    with pytest.raises(LeftError):
        recorded(RunRequest(config, "loopback", tmp_path, folder=RunFolder(path)), go)
    assert capsys.readouterr().err == f"stopped by SIGINT; to go on: coordinator loopback --resume {path}\n"
    assert path.is_dir()


def test_handlers_that_a_run_leaves_behind_stay(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return ExitCode.INTERRUPTED

    try:
        recorded(RunRequest(load(None, [f"run.dir={tmp_path}"]), "loopback", tmp_path), go)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_run_that_is_found_impossible_as_it_begins_leaves_no_folder(tmp_path: Path) -> None:
    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        record.finish(Ledger(spec, find(spec.method)), {}, {}, "failed", "it does not fit")
        return ExitCode.BAD_CONFIG

    request = RunRequest(load(None, [f"run.dir={tmp_path / 'runs'}"]), "serve", tmp_path)
    with pytest.raises(ConfigError, match=r"^it does not fit; nothing has run, so the run folder is removed$"):
        recorded(request, go)
    assert list((tmp_path / "runs").iterdir()) == []


def test_one_whose_clients_have_been_asked_keeps_its_folder(tmp_path: Path) -> None:
    """Be it that no exchange was closed, so that there is no line of any."""

    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        record.has_work = True
        record.finish(Ledger(spec, find(spec.method)), {}, {}, "failed", "it is too large")
        return ExitCode.BAD_CONFIG

    request = RunRequest(load(None, [f"run.dir={tmp_path / 'runs'}"]), "simulate", tmp_path)
    assert recorded(request, go) == ExitCode.BAD_CONFIG
    (path,) = (tmp_path / "runs").iterdir()
    assert json.loads((path / "summary.json").read_text())["reason"] == "it is too large"


def test_where_this_machine_works_for_clients_a_part_that_is_nowhere_is_refused_before_anything(tmp_path: Path) -> None:
    def go(spec: RunSpec, record: RunRecord) -> ExitCode:
        record.finish(Ledger(spec, find(spec.method)), {}, {}, "interrupted", "")
        return ExitCode.INTERRUPTED

    config = load(None, [f"run.dir={tmp_path / 'runs'}", "model.name=nowhere:Net"])
    for mode in ("simulate", "loopback"):
        with pytest.raises(ConfigError, match=r"^\[model\] name = 'nowhere:Net': there is no such module here; "):
            recorded(RunRequest(config, mode, tmp_path), go)
    assert not (tmp_path / "runs").exists()
    assert recorded(RunRequest(config, "serve", tmp_path), go) == ExitCode.INTERRUPTED
