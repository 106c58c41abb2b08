"""Which run is behind an address of this machine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import psutil
import pytest

from coordinator.listener import run_at
from models.spec import ConfigError
from tests.coordinator.report.runs import RecordedRun


@pytest.fixture
def port() -> Iterator[int]:
    """A port that this process listens at, at one address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("address", ["127.0.0.1:{}", "localhost:{}", "tcp://127.0.0.1:{}"])
def test_the_run_of_who_listens_there(tmp_path: Path, port: int, address: str) -> None:
    recorded = RecordedRun(tmp_path)
    folder = recorded.settle()
    assert run_at(address.format(port)) == folder.path.resolve()
    recorded.leave()


def test_who_listens_everywhere_listens_at_every_address_of_this_machine(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    with socket.create_server(("0.0.0.0", 0)) as server:
        for host in ("127.0.0.1", "0.0.0.0"):
            assert run_at(f"{host}:{server.getsockname()[1]}") == recorded.settle().path.resolve()
    recorded.leave()


def test_a_listener_without_a_run_or_with_several_is_told_of(tmp_path: Path, port: int) -> None:
    with pytest.raises(ConfigError, match=rf"process {os.getpid()} listens there, and has no run"):
        run_at(f"127.0.0.1:{port}")
    one, other = RecordedRun(tmp_path / "one"), RecordedRun(tmp_path / "other")
    with pytest.raises(ConfigError, match=r"expected one run, process .*one.*other.*; name one"):
        run_at(f"127.0.0.1:{port}")
    one.leave()
    other.leave()


def test_where_nobody_listens_nobody_is_asked(port: int) -> None:
    with pytest.raises(ConfigError, match=r"127\.0\.0\.2:\d+: nobody listens there"):
        run_at(f"127.0.0.2:{port}")
    with pytest.raises(ConfigError, match="no address of this machine; ask on the machine that has the run"):
        run_at(f"203.0.113.7:{port}")
    with pytest.raises(ConfigError, match="no address of this machine"):
        run_at(f"nowhere.invalid:{port}")


def test_a_system_that_does_not_tell_who_listens_is_named(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(kind: str) -> NoReturn:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", denied)
    with pytest.raises(ConfigError, match=r"this system lets only root see who listens; name the run's folder"):
        run_at(f"127.0.0.1:{port}")
