"""What a service makes of the runs that an earlier process left."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from pathlib import Path
from typing import Literal

import pytest

from coordinator.config import load
from coordinator.service.clerk import Clerk
from coordinator.service.daemon import Service
from coordinator.service.hosted import Hosted, Plan
from coordinator.service.queue import Entry, Queue
from coordinator.service.reporters import Reporters
from coordinator.service.settings import ServiceConfig
from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import lock_store
from models.spec import ConfigError
from tests.coordinator.service.in_process import come, decline, ended, settings, standing, submitted
from tests.coordinator.stores import figures

OVER_S = 20.0


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is short enough for a socket."""
    return tmp_path_factory.mktemp("service")


def left(config: ServiceConfig, *more: str) -> RunFolder:
    """Leave a queued run in a service's folder."""
    run = RunFolder.create(config.over(load(None, more), "run.toml"), "20260131-235959")
    Queue(config.folder).put(Entry(run.run_id))
    return run


def see_failed(service: Service, run: RunFolder, reason: str) -> None:
    """See a run told as failed, for a reason that says this."""
    entry = service.queue.get(run.run_id)
    assert entry is not None
    assert (entry.state, entry.outcome) == ("over", "failed")
    assert reason in entry.reason


def test_a_folder_that_others_may_enter_is_refused(folder: Path) -> None:
    folder.chmod(0o750)
    with pytest.raises(ConfigError, match=rf"\[service\] dir: .* got mode 750, .*; chmod 700 {folder}"):
        Service(settings(folder), folder, None)
    folder.chmod(0o700)
    Service(settings(folder), folder, None).place.leave()


def test_a_folder_of_another_account_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: folder.stat().st_uid + 1)
    with pytest.raises(ConfigError, match=rf"got mode 700, owner {folder.stat().st_uid}"):
        Service(settings(folder), folder, None)


def test_a_run_follows_the_service_as_it_is_set_now(folder: Path) -> None:
    run = left(settings(folder), "transport.heartbeat_s=3.0")
    changed = settings(folder, "transport.max_message_bytes=100000")

    async def main() -> None:
        async with standing(changed) as service:
            transport = service.plans[run.run_id].config.transport
            assert (transport.max_message_bytes, transport.heartbeat_s) == (100_000, 3.0)

    asyncio.run(main())


def test_a_run_whose_figures_are_damaged_has_failed_and_the_others_are_queued(folder: Path) -> None:
    damaged, sound = left(settings(folder)), left(settings(folder))
    damaged.summary_path.write_text("{")

    async def main() -> None:
        async with standing(settings(folder)) as service:
            assert list(service.plans) == [sound.run_id]
            see_failed(service, damaged, "expected the figures of a run")

    asyncio.run(main())


def test_a_run_whose_accounts_cannot_be_written_has_failed_and_the_others_are_queued(folder: Path) -> None:
    unwritable, sound = left(settings(folder)), left(settings(folder))
    Queue(folder).put(Entry(unwritable.run_id, "running"))
    unwritable.metrics_path.mkdir()

    async def main() -> None:
        async with standing(settings(folder)) as service:
            assert list(service.plans) == [sound.run_id]
            see_failed(service, unwritable, "metrics.jsonl")

    asyncio.run(main())


@pytest.mark.parametrize("full", ["coordinator.store.run_folder.os.fsync", "coordinator.store.schema.os.pwrite"])
def test_a_run_whose_record_finds_the_disk_full_goes_on_when_there_is_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], full: str
) -> None:
    monkeypatch.setattr("coordinator.service.daemon.TICK_S", 0.01)
    monkeypatch.setattr("coordinator.service.held_up.AGAIN_S", 0.05)
    run = left(settings(folder), "data.num_clients=1")
    Queue(folder).put(Entry(run.run_id, "running"))
    opened, is_full = Service._opened, True

    def fail(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def opened_on_a_full_disk(service: Service, plan: Plan) -> Hosted | None:
        with monkeypatch.context() as patch:
            if is_full:
                patch.setattr(full, fail)
            return opened(service, plan)

    monkeypatch.setattr(Service, "_opened", opened_on_a_full_disk)

    async def main() -> None:
        async with standing(settings(folder)) as service:
            nonlocal is_full
            clerk = Clerk(service)
            assert Queue(folder).find(run.run_id).state == "queued"
            assert clerk.why_queued(run.run_id).startswith("waiting for clients 0/1")
            come(service, "a")
            await asyncio.sleep(0.2)
            where = rf"waiting for space on the disk: \S* ?{folder}/runs/{run.run_id}/\S+"
            assert re.fullmatch(f"{where}: No space left on device; free some disk space", clerk.why_queued(run.run_id))
            assert service.queue.find(run.run_id) == Entry(run.run_id)
            is_full = False
            while run.run_id not in service.hosted:
                await asyncio.sleep(0.01)
            assert Queue(folder).find(run.run_id).state == "running"

    asyncio.run(asyncio.wait_for(main(), 20.0))
    said = capsys.readouterr().err
    assert said.count(f"{run.run_id} is waiting for space on the disk: ") == 1
    assert said.count(f"{run.run_id} begins\n") == 1
    assert "Errno" not in said


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_run_that_another_process_has_waits_in_the_queue_until_that_lets_go_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, state: Literal["queued", "running"]
) -> None:
    monkeypatch.setattr("coordinator.service.daemon.TICK_S", 0.01)
    monkeypatch.setattr("coordinator.service.held_up.AGAIN_S", 0.05)
    run = left(settings(folder), "data.num_clients=1")
    Queue(folder).put(Entry(run.run_id, state))
    lock = lock_store(run.store_path)

    async def main() -> None:
        async with standing(settings(folder)) as service:
            come(service, "a")
            await asyncio.sleep(0.2)
            told = f"waiting for process {os.getpid()} to let go of it; `coordinator stop` ends that process"
            assert Clerk(service).why_queued(run.run_id) == told
            assert Queue(folder).find(run.run_id) == Entry(run.run_id)
            os.close(lock)
            while run.run_id not in service.hosted:
                await asyncio.sleep(0.01)
            assert Queue(folder).find(run.run_id).state == "running"

    asyncio.run(asyncio.wait_for(main(), 20.0))


@pytest.mark.parametrize("outcome", ["finished", "failed"])
def test_one_that_the_other_process_has_ended_is_over_though_no_client_is_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    monkeypatch.setattr("coordinator.service.daemon.TICK_S", 0.01)
    monkeypatch.setattr("coordinator.service.held_up.AGAIN_S", 0.05)
    run = left(settings(folder), "data.num_clients=1")
    Queue(folder).put(Entry(run.run_id, "running"))
    lock = lock_store(run.store_path)

    async def main() -> None:
        async with standing(settings(folder)) as service:
            assert Clerk(service).why_queued(run.run_id).startswith("waiting for process ")
            await asyncio.sleep(0.2)
            assert list(service.plans) == [run.run_id]
            run.write_summary(figures(outcome=outcome))
            os.close(lock)
            entry = await asyncio.wait_for(ended(service, run.run_id), OVER_S)
            assert (entry.outcome, run.read_summary()["outcome"]) == (outcome, outcome)
            assert not service.plans

    asyncio.run(main())


def test_a_queued_run_that_has_finished_without_its_service_is_over(folder: Path) -> None:
    finished, failed = left(settings(folder)), left(settings(folder))
    finished.write_summary(figures(outcome="finished"))
    failed.write_summary(figures(outcome="failed"))  # and was queued to go on

    async def main() -> None:
        async with standing(settings(folder)) as service:
            assert service.queue.find(finished.run_id).outcome == "finished"
            assert list(service.plans) == [failed.run_id]

    asyncio.run(main())


def test_a_run_whose_service_was_killed_before_its_report_was_made_has_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = left(settings(folder))
    Queue(folder).put(Entry(run.run_id, "running"))
    run.write_summary(figures(outcome="finished"))
    reported: list[str] = []
    monkeypatch.setattr(Reporters, "make", lambda reporters, folder, config: reported.append(folder.run_id))

    async def main() -> None:
        async with standing(settings(folder)) as service:
            entry = service.queue.get(run.run_id)
            assert entry is not None
            assert (entry.state, entry.outcome) == ("over", "finished")

    asyncio.run(main())
    assert reported == [run.run_id]


def test_a_run_that_failed_as_its_service_was_killed_is_over_for_its_reason(folder: Path) -> None:
    run = left(settings(folder))
    Queue(folder).put(Entry(run.run_id, "running"))
    run.write_summary(figures(outcome="failed", reason="3 rounds failed in a row"))

    async def main() -> None:
        async with standing(settings(folder)) as service:
            assert service.queue.find(run.run_id) == Entry(run.run_id, "over", "failed", "3 rounds failed in a row")

    asyncio.run(main())


def test_before_the_queue_has_a_run_go_on_nothing_tells_any_more_that_it_has_failed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, peak, put, told = left(settings(folder), "data.num_clients=1"), 10**15, Queue.put, []
    run.write_summary(figures(outcome="failed", memory={"client_peak_rss_bytes": peak}))

    def put_and_look(queue: Queue, entry: Entry) -> None:
        told.append((entry.state, run.summary_path.exists()))
        put(queue, entry)

    async def main() -> None:
        async with standing(settings(folder)) as service:
            monkeypatch.setattr(Queue, "put", put_and_look)
            come(service, "a")
            await asyncio.sleep(0)  # the run has opened its port
            service.hosted[run.run_id].end("a test")
            await asyncio.wait_for(ended(service, run.run_id), OVER_S)

    asyncio.run(main())
    assert told == [("running", False)]
    assert run.read_summary()["memory"]["client_peak_rss_bytes"] == peak


def test_no_run_begins_while_the_folder_of_its_service_is_elsewhere(folder: Path) -> None:
    moved = folder.with_name("moved")

    async def main() -> None:
        async with standing(settings(folder)) as service:
            run_id = await submitted(service, "data.num_clients=1")
            folder.rename(moved)
            come(service, "a")
            assert (list(service.plans), list(service.hosted)) == ([run_id], [])
            moved.rename(folder)
            service.fill()
            assert (list(service.plans), list(service.hosted)) == ([], [run_id])

    asyncio.run(main())


def test_a_run_that_was_taken_up_does_not_end_by_the_first_client_that_declines_it(folder: Path) -> None:
    run = left(settings(folder), "data.num_clients=2")
    Queue(folder).put(Entry(run.run_id, "running"))

    async def main() -> None:
        async with standing(settings(folder)) as service:
            hosted = service.hosted[run.run_id]
            await asyncio.sleep(0)  # the run has opened its port
            for client in ("a", "b"):
                assert not hosted.is_over
                come(service, client)
                assert hosted.clients == {client}
                decline(service, client, run.run_id, "no data")
                await asyncio.sleep(0)
            entry = await asyncio.wait_for(ended(service, run.run_id), OVER_S)
            assert (entry.outcome, entry.reason) == ("failed", "nobody is left to take part: declined by a, b: no data")

    asyncio.run(main())


@pytest.mark.parametrize("limit", [1, 2])
def test_of_the_runs_that_went_on_no_more_go_on_than_may(folder: Path, limit: int) -> None:
    runs = [left(settings(folder)).run_id for _ in range(2)]
    for run_id in runs:
        Queue(folder).put(Entry(run_id, "running"))

    async def main() -> None:
        async with standing(settings(folder, f"service.max_concurrent_runs={limit}")) as service:
            assert (list(service.hosted), list(service.plans)) == (runs[:limit], runs[limit:])
            states = {"running"} if limit == 2 else {"running", "queued"}
            assert {entry.state for entry in Queue(folder).entries} == states
            assert [entry.run_id for entry in Queue(folder).entries] == runs

    asyncio.run(main())


def test_runs_that_a_lost_queue_knew_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = settings(folder)
    runs = [left(config, f"run.name={name}") for name in ("a", "b", "c")]
    (folder / "queue.json").unlink()
    Queue(folder).put(Entry(runs[1].run_id, "over", "finished"))

    async def main() -> None:
        async with standing(config):
            pass

    asyncio.run(main())
    told = f"not in the queue, so that nobody goes on with them: {runs[0].run_id}, {runs[2].run_id}\n"
    assert told in capsys.readouterr().err
