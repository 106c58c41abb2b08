"""What a service manager hears, at a real datagram socket."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from wire.sockets.systemd import READY, STOPPING, TURNING, ServiceManager


class Manager:
    """Listens as systemd does."""

    def __init__(self, address: str) -> None:
        self.environment = {"NOTIFY_SOCKET": address, "HOME": "/"}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)

    def heard(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self._socket.recv(256).decode())
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@protoedge-test-{os.getpid()}"
    made = Manager(address)
    yield made
    made.close()


def serve(service: ServiceManager) -> None:
    async def main() -> None:
        service.ready(asyncio.get_running_loop())
        service.stopping()

    asyncio.run(main())


def test_it_hears_the_beginning_and_the_end(manager: Manager) -> None:
    serve(ServiceManager(manager.environment))
    assert manager.heard() == [READY, STOPPING]


def test_it_hears_that_the_loop_turns_only_while_it_does(manager: Manager) -> None:
    heard: list[str] = []

    async def main() -> None:
        ServiceManager({**manager.environment, "WATCHDOG_USEC": "3000"}).ready(asyncio.get_running_loop())
        while heard.count(TURNING) < 3:
            await asyncio.sleep(0.001)
            heard.extend(manager.heard())
        time.sleep(0.02)  # the loop hangs
        assert manager.heard() == []

    asyncio.run(main())
    assert heard == [READY, *[TURNING] * (len(heard) - 1)]


def test_a_watchdog_for_another_process_is_not_fed(manager: Manager) -> None:
    serve(ServiceManager({**manager.environment, "WATCHDOG_USEC": "3000", "WATCHDOG_PID": "1"}))
    assert manager.heard() == [READY, STOPPING]


def test_children_are_handed_nothing_on(manager: Manager) -> None:
    environment = {**manager.environment, "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}
    ServiceManager(environment)
    assert environment == {"HOME": "/"}


def test_without_a_manager_nothing_is_told_and_one_that_is_gone_does_not_matter(manager: Manager) -> None:
    serve(ServiceManager({}))
    assert manager.heard() == []
    serve(ServiceManager({"NOTIFY_SOCKET": "/nowhere/notify"}))
