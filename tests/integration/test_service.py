"""Both daemons as services: what their manager hears from start to end, and that their children are silent."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import WAIT_S, Process
from wire.exit_codes import ExitCode
from wire.sockets.systemd import READY, STOPPING, TURNING


@pytest.fixture
def manager(tmp_path: Path, pairs: PairsRun) -> Iterator[socket.socket]:
    """A service manager that every process of the test is handed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(WAIT_S)
        pairs.processes.environment.update(NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="3000000")
        yield listening


@pytest.mark.parametrize("kind", ["coordinator", "client"])
def test_a_manager_hears_that_a_daemon_is_up_turns_and_ends(pairs: PairsRun, manager: socket.socket, kind: str) -> None:
    process: Process = pairs.serve() if kind == "coordinator" else pairs.client(0, "127.0.0.1:9")
    assert [manager.recv(64).decode() for _ in range(2)] == [READY, TURNING]
    assert process.stop() == ExitCode.INTERRUPTED
    manager.settimeout(0.0)
    heard: list[str] = []
    while not heard or heard[-1] != STOPPING:
        heard.append(manager.recv(64).decode())
    assert set(heard[:-1]) <= {TURNING}
