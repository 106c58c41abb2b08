"""The live page's process: where it listens, and that it leaves."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import urllib.request

import pytest

from coordinator.dashboard import process
from coordinator.dashboard.process import Dashboard
from coordinator.report.reading import Run
from models.spec import ConfigError
from tests.integration.processes import until


def test_it_answers_while_the_run_goes_on_and_leaves_with_it(run: Run) -> None:
    for needed in process.NEEDED:
        pytest.importorskip(needed)
    log = run.folder.path / "dashboard.log"
    dashboard = Dashboard(run.folder, "0.0.0.0:0", log=log)
    try:
        assert "0.0.0.0" not in dashboard.url  # nobody could open that
        address, token = re.sub("//.*:", "//127.0.0.1:", dashboard.url).split("?")
        with urllib.request.urlopen(f"{address}healthz?{token}", timeout=20) as answer:
            assert json.loads(answer.read())["status"] == "ok"
    finally:
        dashboard.close()
    assert dashboard._process.returncode == 0
    until(lambda: not log.read_text(), "it had nothing to complain of")


def test_on_this_machine_alone_there_is_no_token(run: Run) -> None:
    for needed in process.NEEDED:
        pytest.importorskip(needed)
    for address in ("127.0.0.1:0", "localhost:0"):
        with contextlib.closing(Dashboard(run.folder, address)) as dashboard:
            assert dashboard.url.startswith("http://127.0.0.1:")
            assert "token" not in dashboard.url


def test_an_address_in_use_is_one_line(run: Run) -> None:
    for needed in process.NEEDED:
        pytest.importorskip(needed)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(
            ConfigError, match=r"\[report\] dashboard = .*: expected a free address of this machine, got Address"
        ):
            Dashboard(run.folder, address)


def test_a_missing_package_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "NEEDED", ("json", "no_such_package"))
    with pytest.raises(ConfigError, match=r"the live page needs no_such_package: pip install 'protoedge\[dashboard\]'"):
        Dashboard(run.folder, "127.0.0.1:0")
