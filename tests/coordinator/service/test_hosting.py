"""What is left in a service of a run that is over."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path

import pytest

from coordinator.daemon import Coordinator
from tests.coordinator.service.in_process import come, fill_the_disk, settings, standing, submitted

OVER_S = 20.0


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is short enough for a socket."""
    return tmp_path_factory.mktemp("service")


def test_nothing_of_a_run_that_is_over_stays_in_memory(folder: Path) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            run_id = await submitted(service, "data.num_clients=2")
            for client in ("a", "b"):
                come(service, client)
            gc.disable()  # it would come some time, or late
            alive = weakref.ref(service.hosted[run_id]._coordinator)
            service.hosted[run_id].end("a test")
            await asyncio.wait_for(over(alive), OVER_S)

    async def over(alive: weakref.ref[Coordinator]) -> None:
        while alive() is not None:
            await asyncio.sleep(0.01)

    try:
        asyncio.run(main())
    finally:
        gc.enable()


def test_a_run_whose_beginning_cannot_be_written_stays_queued_and_begins_when_it_can(folder: Path) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            run_id = await submitted(service, "data.num_clients=2")
            come(service, "a")
            with pytest.MonkeyPatch.context() as patch:
                fill_the_disk(service, patch)
                come(service, "b")
                assert (list(service.plans), list(service.hosted)) == ([run_id], [])
            service.fill()
            assert (list(service.plans), list(service.hosted)) == ([], [run_id])

    asyncio.run(main())
