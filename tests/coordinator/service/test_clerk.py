"""The clerk: what it makes of orders, and what it refuses."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from coordinator.metrics import privacy
from coordinator.service.clerk import Clerk
from coordinator.service.orders import Cancel, Done, ListRuns, Resume, Runs, Stop
from coordinator.service.queue import Entry
from coordinator.store.run_folder import RunFolder
from models.spec import ConfigError, DataConfig
from tests.coordinator.service.in_process import fill_the_disk, listed, settings, standing, submitted
from tests.coordinator.stores import figures

HOLD = """
import sys, time
from pathlib import Path
from coordinator.store.schema import lock_store
lock_store(Path(sys.argv[1]))
print(flush=True)
time.sleep(20)
"""
"""A process that has a store."""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is short enough for a socket."""
    return tmp_path_factory.mktemp("clerk")


def test_a_run_whose_noise_cannot_be_accounted_for_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            with pytest.raises(ConfigError, match="noise_multiplier = 4: expected dp-accounting"):
                await submitted(service, "method.name=headcal", "privacy.noise_multiplier=4.0")
            assert service.queue.entries == []

    monkeypatch.setattr(privacy, "find_spec", lambda name: None)
    asyncio.run(main())


@pytest.mark.parametrize("content", [None, "[run", "[method]\nname = 3\n[run]\nnum_rounds = 'many'\n"])
def test_a_damaged_run_folder_is_told_and_the_others_are_listed(folder: Path, content: str | None) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            damaged, sound = [await submitted(service) for _ in range(2)]
            config = folder / "runs" / damaged / "config.toml"
            service.plans.pop(damaged)
            service.queue.put(Entry(damaged, "over", "failed", "why"))
            config.unlink() if content is None else config.write_text(content)
            runs = await Clerk(service).carry_out(ListRuns())
            assert isinstance(runs, Runs)
            one, other = sorted(runs.runs, key=lambda run: run.state == "queued")
            assert (one.run_id, one.outcome, one.method, one.num_rounds) == (damaged, "failed", "", 0)
            assert one.told.startswith(f"why; {config}")
            assert (other.run_id, other.method, other.num_rounds) == (sound, "fedproto", 10)

    asyncio.run(main())


def test_a_run_is_resumed_once_and_its_data_are_looked_through_beside_the_loop(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_by: list[threading.Thread] = []

    def classes(config: DataConfig) -> list[str]:
        read_by.append(threading.current_thread())
        return list("0123456789")

    monkeypatch.setattr("coordinator.service.hosted.dataset_classes", classes)

    async def main() -> None:
        async with standing(settings(folder)) as service:
            run_id, clerk = await submitted(service), Clerk(service)
            await clerk.carry_out(Cancel(run_id))
            orders = [clerk.carry_out(Resume(run_id)) for _ in range(2)]
            done, refused = await asyncio.gather(*orders, return_exceptions=True)
            assert {type(done), type(refused)} == {Done, ConfigError}
            assert list(service.plans) == [run_id]

    asyncio.run(main())
    assert len(read_by) == 2
    assert threading.main_thread() not in read_by


def test_a_run_that_another_process_goes_on_with_is_told_as_that_and_not_queued_beside_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            run_id, clerk = await submitted(service), Clerk(service)
            del service.plans[run_id]
            stopped = Entry(run_id, "over", "interrupted", "stopped")
            service.queue.put(stopped)
            run = RunFolder(folder / "runs" / run_id)
            with subprocess.Popen([sys.executable, "-c", HOLD, run.store_path], stdout=subprocess.PIPE) as other:
                assert other.stdout is not None
                other.stdout.readline()
                told = f"process {other.pid} goes on with it, not this service; `coordinator stop` ends that"
                (now,) = (await listed(clerk)).runs
                assert (now.state, now.outcome, now.told) == ("running", "", told)
                for order in (Resume(run_id), Stop(run_id), Cancel(run_id)):
                    with pytest.raises(ConfigError, match=f"got one that is running: {told}"):
                        await clerk.carry_out(order)
                other.kill()
            (now,) = (await listed(clerk)).runs
            assert (now.state, now.outcome, now.told) == ("over", "interrupted", "stopped")
            run.write_summary(figures(outcome="finished"))
            (now,) = (await listed(clerk)).runs
            assert (now.state, now.outcome, now.told) == ("over", "finished", "")
            with pytest.raises(ConfigError, match="got one that is finished"):
                await clerk.carry_out(Resume(run_id))
            assert service.queue.find(run_id) == stopped

    asyncio.run(main())


def test_who_would_stop_a_run_that_is_queued_is_told_how_to_take_it_out(folder: Path) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            run_id, clerk = await submitted(service), Clerk(service)
            with pytest.raises(ConfigError, match=f"one that is queued; `coordinator cancel {run_id}` takes it out"):
                await clerk.carry_out(Stop(run_id))

    asyncio.run(main())


def test_on_a_full_disk_nothing_is_cancelled_or_queued(folder: Path) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            run_id, clerk = await submitted(service), Clerk(service)
            with pytest.MonkeyPatch.context() as patch:
                fill_the_disk(patch)
                for order in (clerk.carry_out(Cancel(run_id)), submitted(service)):
                    with pytest.raises(OSError, match=r"queue\.json cannot be written: No space left .*; nothing has"):
                        await order
                assert list(service.plans) == [run_id]
                assert [run.name for run in (folder / "runs").iterdir()] == [run_id]
            assert await clerk.carry_out(Cancel(run_id)) == Done(run_id, "cancelled")
            with pytest.raises(ConfigError, match=r"expected a run that goes on, got one that is over \(cancelled\)"):
                await clerk.carry_out(Cancel(run_id))

    asyncio.run(main())
