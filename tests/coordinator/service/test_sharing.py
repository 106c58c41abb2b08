"""Which clients a run of a service is let have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from coordinator.clients.door import Arrival
from coordinator.clients.foyer import Guest
from coordinator.config import load
from coordinator.service.choice import choose
from coordinator.service.clerk import Clerk
from coordinator.service.hosted import Hosted, Plan
from tests.coordinator.service.in_process import come, listed, settings, standing, submitted
from wire.messages import Hello


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


TWINS = "a and b have [data] index = 0"


def test_clients_of_one_part_of_the_data_are_named_to_whoever_asks_and_once_in_the_log(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            run_id = await submitted(service, "data.num_clients=2")
            for client, index in (("b", 0), ("a", 0)):
                come(service, client, data_index=index)
            service.fill()
            assert Clerk(service).why_queued(run_id) == f"waiting for clients 1/2, 2 are here: {TWINS}"
            come(service, "c", data_index=1)
            assert service.hosted[run_id].clients == {"a", "c"}

    asyncio.run(main())
    assert capsys.readouterr().err.count(f"{TWINS}: expected another part for each client") == 1


def test_who_is_not_let_into_a_run_that_goes_on_is_named_while_it_has_room(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            run_id = await submitted(service, "data.num_clients=2", "round.min_available_clients=1")
            for client in ("a", "b"):
                come(service, client, data_index=0)
                await asyncio.sleep(0)  # the run has opened its port
            (run,) = (await listed(Clerk(service))).runs
            assert (run.run_id, run.clients) == (run_id, ["a"])
            assert run.told.endswith(f"; {TWINS}")
            come(service, "c", data_index=1)
            (run,) = (await listed(Clerk(service))).runs
            assert TWINS not in run.told

    asyncio.run(main())
    assert capsys.readouterr().err.count(f"{TWINS}: expected another part for each client") == 1


def test_many_clients_of_one_part_and_many_such_parts_are_counted() -> None:
    def guest(client: str, index: int | None) -> Guest:
        return Guest(cast(Arrival, None), Hello((1, 3), client, 1, device={"data_index": index}))

    many = choose([guest(f"c{number}", 0) for number in range(6)], [guest("m", 1)])
    assert ([each.client for each in many.free], many.twins) == (["c0"], ["6 clients have [data] index = 0"])
    three = choose([guest("b", 7), guest("c", 7), guest("d", None)], [guest("a", 7)])
    assert ([each.client for each in three.free], three.twins) == (["d"], ["a, b and c have [data] index = 7"])
    parts = choose([guest(f"{name}{index}", index) for index in range(7) for name in "ab"])
    assert len(parts.free) == 7
    assert parts.twins[4:] == ["a4 and b4 have [data] index = 4", "2 more parts that several have"]
