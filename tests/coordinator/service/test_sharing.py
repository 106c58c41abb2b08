"""Which clients a run of a service is let have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from coordinator.clients.foyer import Guest
from coordinator.config import load
from coordinator.service.hosted import Hosted, Plan
from tests.coordinator.service.in_process import come, settings, standing


class RunningRun:
    """A run of two clients that goes on, which some have declined."""

    run_id = "run"
    num_free = 2

    def __init__(self, *declined: str) -> None:
        self.plan = cast(Plan, SimpleNamespace(config=load(None, ["data.num_clients=2"])))
        self.clients: set[str] = set()
        self._declined = declined

    def may_have(self, guest: Guest) -> bool:
        return guest.client not in self._declined

    def take_in(self, guest: Guest) -> None:
        self.clients.add(guest.client)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is short enough for a socket."""
    return tmp_path_factory.mktemp("service")


def test_another_client_with_its_part_of_the_data_takes_the_place_of_one_that_has_declined(folder: Path) -> None:
    run = RunningRun("a")

    async def main() -> None:
        async with standing(settings(folder)) as service:
            service.hosted["run"] = cast(Hosted, run)
            for client, index in (("a", 0), ("b", 0), ("c", 0), ("d", 1)):
                come(service, client, data_index=index)
            del service.hosted["run"]

    asyncio.run(main())
    assert run.clients == {"b", "d"}
