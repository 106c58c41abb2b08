"""Who of a service's clients is there: whose silence says what, and who is counted for a run that begins."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coordinator.store.run_folder import run_token
from tests.coordinator.service.in_process import begun, come, ended, say, settings, standing, submitted
from wire.messages import Goodbye, Ready

OVER_S = 20.0


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is short enough for a socket."""
    return tmp_path_factory.mktemp("service")


@pytest.mark.parametrize(("heartbeat_s", "here"), [(5.0, {"a", "b"}), (0.1, set())])
def test_a_client_is_lost_by_the_heartbeat_of_its_run_and_one_in_no_run_by_the_services(
    folder: Path, monkeypatch: pytest.MonkeyPatch, heartbeat_s: float, here: set[str]
) -> None:
    monkeypatch.setattr("coordinator.service.daemon.TICK_S", 0.01)

    async def main() -> None:
        async with standing(settings(folder, "service.idle_heartbeat_s=0.1")) as service:
            await begun(service, f"transport.heartbeat_s={heartbeat_s}")
            come(service, "c")
            await asyncio.sleep(0.5)
            assert service.foyer.guests.keys() == here

    asyncio.run(main())


@pytest.mark.parametrize("how", ["it said goodbye", "it said nothing"])
def test_who_leaves_as_a_run_ends_is_not_counted_for_the_next(folder: Path, how: str) -> None:
    cut: set[str] = set()

    async def main() -> None:
        async with standing(settings(folder), cut) as service:
            hosted = await begun(service)
            second = await submitted(service, "data.num_clients=2")
            if how == "it said goodbye":
                hosted.end("a test")
                await asyncio.sleep(0)
                say(service, "a", Goodbye("over"))
                assert "a" in service.foyer.guests  # it may stay
                service._on_ended(b"a", None)
                assert "a" not in service.foyer.guests
            else:
                service._on_ended(b"a", None)
                assert "a" in service.foyer.guests  # it may come back, as its run goes on
                cut.add("a")
                hosted.end("a test")
            await asyncio.wait_for(ended(service, hosted.run_id), OVER_S)
            assert service.foyer.guests.keys() == {"b"}
            assert service.queue.find(second).state == "queued"

    asyncio.run(main())


def test_a_client_that_cannot_be_reached_as_it_comes_is_not_counted(folder: Path) -> None:
    async def main() -> None:
        async with standing(settings(folder), {"a"}) as service:
            run_id = await submitted(service, "data.num_clients=1")
            come(service, "a")
            assert (service.foyer.guests, service.queue.find(run_id).state) == ({}, "queued")

    asyncio.run(main())


def test_who_is_gone_and_was_never_ready_keeps_nobody_out_of_a_run(folder: Path) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            hosted = await begun(service)
            say(service, "a", Ready(run_token(hosted.run_id), 10, 0, [1] * 10, 50, 0, 0))
            for client in ("a", "b"):
                say(service, client, Goodbye("a test"))
            assert (hosted.clients, hosted.num_free) == ({"a", "b"}, 1)
            come(service, "b")
            assert (hosted.clients, hosted.num_free) == ({"a", "b"}, 0)
            come(service, "c")
            assert hosted.clients == {"a", "b"}
            say(service, "b", Goodbye("a test"))
            assert hosted.clients == {"a", "c"}

    asyncio.run(main())
