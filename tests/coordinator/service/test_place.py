"""A service's folder: nobody else's, and the same one from start to end."""

from __future__ import annotations

import asyncio
import errno
import shutil
from pathlib import Path

import pytest

from coordinator.service.clerk import Clerk
from coordinator.service.orders import Cancel, ListRuns, Resume, Runs
from coordinator.service.place import Place
from coordinator.service.queue import Queue
from models.spec import ConfigError
from tests.coordinator.service.in_process import begun, ended, settings, standing, submitted
from wire.exit_codes import ExitCode

OVER_S = 20.0


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is short enough for a socket."""
    return tmp_path_factory.mktemp("s") / "service"


def test_a_folder_is_known_by_its_whole_path_and_seen_where_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    place = Place(Path("service"))
    assert place.path == folder
    monkeypatch.chdir("/")
    place.see()
    folder.rename(folder.parent / "moved")
    told = f"was moved or removed: expected it at {folder}; put it back there"
    with pytest.raises(FileNotFoundError, match=told):
        place.see()
    Place(folder).leave()  # of another service, which is nothing to this one
    with pytest.raises(FileNotFoundError, match=told):
        place.see()
    shutil.rmtree(folder)
    (folder.parent / "moved").rename(folder)
    place.see()
    place.leave()


def test_a_service_whose_folder_was_moved_makes_no_other_and_goes_on_when_it_is_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.service.daemon.TICK_S", 0.01)
    moved = folder.parent / "moved"

    async def main() -> None:
        async with standing(settings(folder)) as service:
            hosted, clerk = await begun(service), Clerk(service)
            queued = await submitted(service)
            folder.rename(moved)
            with pytest.raises(ConfigError, match=r"was moved or removed: .*; nothing is queued"):
                await submitted(service)
            with pytest.raises(OSError, match=r"was moved or removed: .*; nothing has changed"):
                await clerk.carry_out(Cancel(queued))
            entry = await asyncio.wait_for(ended(service, hosted.run_id), OVER_S)
            with pytest.raises(OSError, match="was moved or removed"):
                await clerk.carry_out(Resume(hosted.run_id))
            assert not folder.exists()
            moved.rename(folder)
            while Queue(folder).find(hosted.run_id) != entry:
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_run_whose_folder_is_gone_is_told_with_its_rounds_and_then_interrupted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.service.daemon.TICK_S", 0.01)

    async def main() -> None:
        async with standing(settings(folder)) as service:
            hosted, clerk = await begun(service, "run.num_rounds=7"), Clerk(service)
            shutil.rmtree(hosted.plan.folder.path)
            runs = await clerk.carry_out(ListRuns())
            assert isinstance(runs, Runs)
            (told,) = runs.runs
            assert (told.state, told.round, told.num_rounds) == ("running", 1, 7)
            assert f"{hosted.plan.folder.config_path}: " in told.told
            entry = await asyncio.wait_for(ended(service, hosted.run_id), OVER_S)
            assert entry.outcome == "interrupted"
            assert entry.reason.startswith("its folder was moved or removed: expected")

    asyncio.run(main())


def test_so_is_one_that_finds_it_gone_as_it_writes(folder: Path) -> None:
    async def main() -> None:
        async with standing(settings(folder)) as service:
            hosted = await begun(service, "run.num_rounds=7")
            shutil.rmtree(hosted.plan.folder.path)
            hosted._coordinator.end(ExitCode.INTERRUPTED, "cannot write: metrics.jsonl: No such file or directory")
            entry = await asyncio.wait_for(ended(service, hosted.run_id), OVER_S)
            assert entry.outcome == "interrupted"
            assert entry.reason.startswith("its folder was moved or removed: expected")

    asyncio.run(main())


def test_a_file_system_that_does_not_answer_ends_no_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        raise OSError(errno.EIO, "Input/output error", str(path))

    async def main() -> None:
        async with standing(settings(folder)) as service:
            hosted = await begun(service)
            monkeypatch.setattr("coordinator.service.hosted.lock_mark", fail)
            hosted.see_folder()
            await asyncio.sleep(0)
            assert not hosted.is_over

    asyncio.run(main())
