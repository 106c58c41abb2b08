"""`coordinator dashboard`: the page of a run that another process has, or none any more."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from coordinator import cli
from coordinator.dashboard import process
from coordinator.report.reading import Run
from tests.coordinator.stores import stored_run
from wire.exit_codes import ExitCode


@contextlib.contextmanager
def shown(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Have the page of the run in this folder served, and yield who serves it and where."""
    for needed in process.NEEDED:
        pytest.importorskip(needed)
    command = [sys.executable, "-I", "-m", "coordinator", "dashboard", str(path), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        try:
            yield serving, serving.stdout.readline().removeprefix("live page: ").strip()
        finally:
            serving.kill()


def answer_of(address: str) -> str:
    """Return what a page answers."""
    with urllib.request.urlopen(address, timeout=20) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_that_is_over_is_shown_until_a_signal_comes(run: Run, number: signal.Signals) -> None:
    with shown(run.folder.path) as (serving, address):
        assert address.startswith("http://127.0.0.1:")
        assert json.loads(answer_of(f"{address}healthz")) == {"status": "ok", "outcome": run.outcome}
        assert "protoedge_" in answer_of(f"{address}metrics")
        assert run.folder.run_id in answer_of(address)
        serving.send_signal(number)
        assert serving.communicate(timeout=20) == ("", "")
        assert serving.returncode == ExitCode.FINISHED


def test_it_says_when_its_own_process_is_gone(run: Run) -> None:
    with shown(run.folder.path) as (serving, _):
        for child in psutil.Process(serving.pid).children():
            child.kill()
        assert serving.communicate(timeout=20) == ("", "coordinator: the page's process has ended\n")
        assert serving.returncode == ExitCode.FAILED


def test_what_cannot_be_served_is_a_line(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for needed in process.NEEDED:
        pytest.importorskip(needed)
    in_memory = stored_run(tmp_path, "serve", "run.store=memory")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        for given, told in {
            (str(in_memory.path), "0"): f"coordinator: {in_memory.run_id}: [run] store = 'memory' leaves nothing",
            (str(run.folder.path), "here"): "coordinator: ADDR = 'here': expected host:port, such as",
            (str(run.folder.path), str(port)): f"coordinator: ADDR = '127.0.0.1:{port}': expected a free address",
            (str(tmp_path), "0"): f"coordinator: {tmp_path}: expected a run folder",
        }.items():
            assert cli.main(["dashboard", *given]) == ExitCode.BAD_CONFIG
            assert capsys.readouterr().err.startswith(told)
