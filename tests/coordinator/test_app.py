"""A run on this machine, from its config to its exit code."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from coordinator.app import Order, recorded
from coordinator.config import load
from tests.coordinator.report.runs import RecordedRun
from wire.exit_codes import ExitCode
from wire.sockets.service import READY


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
        order = Order(config, "serve", tmp_path, folder=folder)
        assert recorded(order, lambda spec, record: pytest.fail("it must not run again")) == ExitCode.FINISHED
        assert manager.recv(64).decode() == READY
    assert "the run is finished already" in capsys.readouterr().out
    assert not folder.store_path.with_name("store.sqlite-wal").exists()
