"""A disk that is full for a while: what is to be stored waits, nothing is acknowledged before, and all ends in time."""

from __future__ import annotations

import asyncio
import errno
import io
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coordinator.config import load
from coordinator.display import Display
from coordinator.store import run_folder, schema, writer
from coordinator.store.growing import GrowingFile
from coordinator.store.record import RunRecord
from coordinator.store.run_folder import RunFolder
from coordinator.store.store import Store, StoreError
from models.spec import ConfigError, NoSpaceError
from tests.coordinator.stores import WAIT_S, Failures, call, meta, never, reopened, unexpected, update
from wire.messages import Ready

FULL = OSError(errno.ENOSPC, "No space left on device")

ERRORS = [FULL, OSError(errno.EDQUOT, "Disk quota exceeded"), sqlite3.OperationalError("database or disk is full")]


class Disk:
    """A disk that is full until there is `room`, in the way of an error."""

    def __init__(self, error: Exception = FULL) -> None:
        self.room = False
        self.tries = 0
        self._error = error

    def write(self, connection: sqlite3.Connection) -> None:
        """Write something, if there is room."""
        self.tries += 1
        if not self.room:
            raise self._error
        connection.execute("INSERT INTO meta VALUES ('there', '')")


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "SPACE_EVERY_S", 0.002)


@pytest.mark.parametrize("error", ERRORS)
def test_what_does_not_fit_waits_and_is_acknowledged_once_when_there_is_room(
    store_path: Path, error: Exception
) -> None:
    told: list[str] = []
    acknowledged: list[str] = []
    disk, store = Disk(error), Store(store_path, call, unexpected)
    store.wait_for_space(told.append)
    store.open_exchange(1, 0, ["a"], b"", b"")
    with store.together():
        store.put_updates([update()], partial(acknowledged.append, "a"))
        store._writer.write(disk.write, partial(acknowledged.append, "there"))
    until(lambda: disk.tries > 3)
    assert store.waits_for_space()
    store.put_meta("later", "", partial(acknowledged.append, "later"))
    assert acknowledged == []
    assert len(told) == 1
    assert told[0].startswith(f"store {store_path}: ")
    assert told[0].endswith("; free some disk space: the run waits, and goes on when there is room")
    disk.room = True
    until(lambda: len(acknowledged) == 3)
    assert acknowledged == ["a", "there", "later"]
    assert not store.waits_for_space()
    assert told[1:] == ["the disk has room again: the run goes on"]
    assert meta(store) == {"there": "", "later": ""}
    store.close()


def test_a_store_that_waits_is_closed_in_time_and_says_what_it_could_not_store(store_path: Path) -> None:
    failures, disk = Failures(), Disk()
    store = Store(store_path, call, failures)
    store.wait_for_space(lambda told: None)
    store.open_exchange(1, 0, ["a"], b"", b"")
    store.put_meta("before", "")
    store._writer.write(disk.write, never)
    store.put_updates([update()], never)
    until(lambda: disk.tries)
    with pytest.raises(StoreError, match=r"No space left on device; free some disk space$"):
        store.close()
    assert not store.waits_for_space()
    assert "No space left" in failures.only()
    store.close()  # all is said
    opened = reopened(store_path).open_exchange
    assert opened is None or opened.updates == []


def test_a_store_in_memory_waits_for_no_disk() -> None:
    failures, disk = Failures(), Disk()
    store = Store(None, call, failures)
    store.wait_for_space(lambda told: None)
    store._writer.write(disk.write, never)
    assert "No space left" in failures.only()
    store.close()


def test_a_failure_of_another_kind_is_not_waited_for(store_path: Path) -> None:
    failures, disk = Failures(), Disk(OSError(errno.EIO, "Input/output error"))
    store = Store(store_path, call, failures)
    store.wait_for_space(lambda told: None)
    store._writer.write(disk.write, never)
    assert "Input/output error; see to the cause" in failures.only()
    assert disk.tries == 1
    store.close()


def test_who_waits_for_a_run_that_is_stopped_on_a_full_disk_is_told_before_long(tmp_path: Path) -> None:
    folder, disk = RunFolder.create(load(None, [f"run.dir={tmp_path}"]), "20260131-235959"), Disk()
    said = io.StringIO()

    async def main() -> None:
        record = RunRecord(folder, load(folder.config_path, []), "serve", Path(), Display(said, False), None)
        with closing(record):
            record.attach(lambda error: None)
            record._store._writer.write(disk.write)
            settled = record.settle()
            while "the run waits" not in said.getvalue():
                await asyncio.sleep(0.001)
            assert not settled.done()
            record.wait_no_more()
            with pytest.raises(StoreError, match="No space left"):
                await asyncio.wait_for(settled, WAIT_S)

    asyncio.run(main())


def test_lines_that_do_not_fit_are_appended_when_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, sizes = tmp_path / "metrics.jsonl", [3, None, 2, None]
    path.write_text("before\n")
    file = GrowingFile(path)
    raw = file._file

    class Filling:
        def write(self, content: bytearray) -> int:
            size = sizes.pop(0) if sizes else len(content)
            if size is None:
                raise FULL
            return raw.write(content[:size])

    with file:
        monkeypatch.setattr(file, "_file", Filling())
        file.put(["first", "second"])
        for found in ("before\nfir", "before\nfirst", "before\nfirst\nsecond\n"):
            file.flush()
            assert path.read_text() == found
        monkeypatch.setattr(file, "_file", raw)
    assert raw.closed


def test_the_samples_of_clients_are_written_once_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = RunFolder.create(load(None, [f"run.dir={tmp_path}"]), "20260131-235959")
    config = load(folder.config_path, [])
    announced = {"a": Ready(1, 30, 10, [10, 20], 2, 100, 0)}

    def full(*_: Any) -> None:
        raise FULL

    with closing(RunRecord(folder, config, "serve", Path(), Display(io.StringIO(), False), None)) as record:
        with monkeypatch.context() as patch:
            patch.setattr(run_folder, "write_whole", full)
            record.write_histogram(config.spec("run", ["x", "y"]), announced)
        assert not folder.histogram_path.exists()
        record.write_histogram(config.spec("run", ["x", "y"]), announced)
    assert folder.read_histogram().clients["a"]["train"] == announced["a"].class_counts


@pytest.mark.parametrize("free", [20 * 1024, 10**9, None])
def test_an_io_error_where_next_to_nothing_is_free_is_a_full_disk(
    store_path: Path, monkeypatch: pytest.MonkeyPatch, free: int | None
) -> None:
    def disk_usage(path: Path) -> Any:
        if free is None:
            raise OSError
        return shutil._ntuple_diskusage(10**9, 0, free)

    monkeypatch.setattr("shutil.disk_usage", disk_usage)
    told = schema.explain(store_path, sqlite3.OperationalError("disk I/O error"))
    is_full = free == 20 * 1024
    cause = "the disk is full, with 20.0 KiB free: " if is_full else ""
    advice = "free some disk space" if is_full else "see to the cause"
    assert (str(told), told.is_full) == (f"store {store_path}: {cause}disk I/O error; {advice}", is_full)


def test_what_is_read_behind_a_write_that_found_no_space_fails_for_want_of_space_too(store_path: Path) -> None:
    disk, store = Disk(), Store(store_path, call, Failures())
    store._writer.write(disk.write, never)
    with pytest.raises(StoreError, match="No space left on device") as failed:
        store.facts()
    assert failed.value.is_full
    store.close()


def test_a_run_that_cannot_begin_for_want_of_space_is_told_apart_from_bad_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(error: OSError) -> ConfigError:
        def write(*_: Any) -> None:
            raise error

        monkeypatch.setattr(run_folder, "write_whole", write)
        with pytest.raises(ConfigError) as failed:
            RunFolder.create(load(None, [f"run.dir={tmp_path}"]), "20260131-235959")
        return failed.value

    assert isinstance(fail(FULL), NoSpaceError)
    assert not isinstance(fail(OSError(errno.EACCES, "Permission denied")), NoSpaceError)
