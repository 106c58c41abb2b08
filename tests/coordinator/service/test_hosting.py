"""What is left in a service of a run that is over."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
import weakref
from functools import partial
from pathlib import Path

import pytest

from coordinator.daemon import Coordinator
from coordinator.service.clerk import Clerk
from coordinator.service.hosted import Hosted
from coordinator.service.orders import Done, Resume
from coordinator.service.queue import Entry, Queue
from coordinator.store.schema import StoreError
from tests.coordinator.service.in_process import (
    begun,
    come,
    decline,
    ended,
    fill_the_disk,
    listed,
    settings,
    standing,
    submitted,
)

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


def test_the_service_speaks_for_its_process_and_no_run_does(folder: Path) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            with pytest.MonkeyPatch.context() as patch, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.bind(str(folder / "notify"))
                manager.setblocking(False)
                patch.setenv("NOTIFY_SOCKET", str(folder / "notify"))  # as if the service had left it there
                run_id = await submitted(service, "data.num_clients=2")
                for client in ("a", "b"):
                    come(service, client)
                hosted = service.hosted[run_id]
                hosted.end("a test")
                await asyncio.wait_for(until_over(hosted), OVER_S)
                with pytest.raises(BlockingIOError):
                    manager.recv(256)

    async def until_over(hosted: Hosted) -> None:
        while not hosted.is_over:
            await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_run_whose_beginning_cannot_be_written_stays_queued_and_begins_when_it_can(folder: Path) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            run_id = await submitted(service, "data.num_clients=2")
            come(service, "a")
            with pytest.MonkeyPatch.context() as patch:
                fill_the_disk(patch)
                come(service, "b")
                assert (list(service.plans), list(service.hosted)) == ([run_id], [])
            service.fill()
            assert (list(service.plans), list(service.hosted)) == ([], [run_id])

    asyncio.run(main())


def test_a_run_that_is_over_on_a_full_disk_is_over_and_the_next_begins_when_that_can_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("coordinator.service.daemon.TICK_S", 0.01)
    why = "store: database or disk is full"

    async def main() -> None:
        async with standing(settings(folder)) as service:
            hosted, clerk = await begun(service), Clerk(service)
            waiting = await submitted(service, "data.num_clients=2")
            with pytest.MonkeyPatch.context() as patch:
                fill_the_disk(patch)
                hosted._record._on_failed(StoreError(why))
                entry = await asyncio.wait_for(ended(service, hosted.run_id), OVER_S)
                assert (entry.outcome, entry.reason) == ("interrupted", why)
                over, queued = (await listed(clerk)).runs
                assert (over.state, over.outcome, over.round, over.told) == ("over", "interrupted", None, why)
                assert (queued.state, "No space left on device" in queued.told) == ("queued", True)
                with pytest.raises(OSError, match="nothing has changed"):
                    await clerk.carry_out(Resume(hosted.run_id))
            assert Queue(folder).find(hosted.run_id).state == "running"
            while waiting not in service.hosted:
                await asyncio.sleep(0.01)
            assert Queue(folder).entries == [entry, Entry(waiting, "running")]
            assert await clerk.carry_out(Resume(hosted.run_id)) == Done(hosted.run_id, "queued")

    asyncio.run(main())
    said = capsys.readouterr().err
    assert f"is over: interrupted ({why})\n" in said
    assert said.count("cannot be written: No space left on device; free some disk space; it is tried again") == 1


def test_a_run_that_waits_for_space_says_so_to_whoever_asks_and_once_in_the_services_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("coordinator.service.daemon.TICK_S", 0.01)
    told: dict[bool, list[str]] = {True: [], False: []}

    async def main() -> None:
        async with standing(settings(folder)) as service:
            hosted = await begun(service)
            for is_short in (True, False):
                hosted._record.waits_for_space = partial(bool, is_short)
                await asyncio.sleep(0.1)
                told[is_short] = [run.told for run in (await listed(Clerk(service))).runs]

    asyncio.run(main())
    assert told[True] == ["waiting for space on the disk"]
    assert "space" not in told[False][0]
    said = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines() if "space" in line]
    assert said == ["waits for space on the disk", "has space on the disk again, and goes on"]


def test_a_run_whose_record_cannot_be_closed_is_interrupted_and_can_be_resumed(folder: Path) -> None:
    def close() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def main() -> None:
        async with standing(settings(folder)) as service:
            hosted = await begun(service)
            hosted._opened.callback(close)
            hosted.end("")
            entry = await asyncio.wait_for(ended(service, hosted.run_id), OVER_S)
            assert entry.outcome == "interrupted"
            told = f"{hosted.plan.folder.path}: No space left on device; free some disk space"
            assert entry.reason == f"its record cannot be written: {told}"

    asyncio.run(main())


def test_one_reason_of_many_clients_to_decline_is_told_once(folder: Path) -> None:
    why, other, names = "the net is another: " + "x" * 180, "no data", [f"client-{index}" for index in range(8)]

    async def main() -> None:
        async with standing(settings(folder)) as service:
            run_id = await submitted(service, "data.num_clients=8")
            for client in names:
                come(service, client)
            await asyncio.sleep(0)  # the run has opened its port
            hosted = service.hosted[run_id]
            for client in names[:2]:
                decline(service, client, run_id, why)
            decline(service, names[2], run_id, other)
            assert hosted.told_of_declined == f"declined by client-0, client-1: {why}; declined by client-2: {other}"
            for client in names[3:]:
                decline(service, client, run_id, why)
            assert hosted.told_of_declined == f"declined by 7 clients: {why}; declined by client-2: {other}"
            await service.over(run_id)
            log = hosted.plan.folder.log_path.read_text()
            assert "client-1 declined: as client-0 did" in log
            assert (log.count(why), log.count("is gone: it left: it declined")) == (2, 8)  # where it began and ended

    asyncio.run(main())
