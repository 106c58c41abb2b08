"""Opening a store: who is refused, and how an older file is brought up to date."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from coordinator.store import schema
from coordinator.store.store import Store, StoreError
from coordinator.store.stored import NO_STORE, DamagedStoreError, read_rounds, reading
from models.spec import ConfigError
from tests.coordinator.stores import call, meta, reopened, run_exchange, unexpected


def test_second_opener_is_refused_until_the_first_lets_go(store_path: Path) -> None:
    first = Store(store_path, call, unexpected)
    with pytest.raises(StoreError, match=rf"store\.sqlite: in use by process {os.getpid()}; stop it"):
        Store(store_path, call, unexpected)
    first.put_meta("still", "works")
    assert meta(first) == {"still": "works"}
    first.close()
    second = Store(store_path, call, unexpected)
    assert meta(second) == {"still": "works"}
    second.close()


@pytest.mark.parametrize(("free", "pages"), [(0, 64), (2 << 20, 64), (32 << 20, 512), (1 << 40, 1000), (None, 1000)])
def test_the_log_takes_a_small_part_of_what_is_free(
    free: int | None, pages: int, store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "free_bytes", lambda folder: free)
    with contextlib.closing(schema.open_database(store_path)) as connection:
        for number in range(2 * pages):
            connection.execute("INSERT INTO meta VALUES (?, ?)", (str(number), "x"))
        size = store_path.with_name(f"{store_path.name}-wal").stat().st_size
    assert pages * 4096 <= size < (pages + 16) * 4200


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"absent/store\.sqlite: No such file or directory"):
        Store(tmp_path / "absent" / "store.sqlite", call, unexpected)


def test_newer_file_is_refused_untouched(store_path: Path) -> None:
    Store(store_path, call, unexpected).close()
    with sqlite3.connect(store_path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    before = store_path.read_bytes()
    with pytest.raises(StoreError, match=f"expected schema version {len(schema.MIGRATIONS)} or older, got 7"):
        Store(store_path, call, unexpected)
    assert store_path.read_bytes() == before


def test_database_of_another_program_is_refused_untouched(store_path: Path) -> None:
    with sqlite3.connect(store_path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = store_path.read_bytes()
    with pytest.raises(StoreError, match="of another program; name another folder"):
        Store(store_path, call, unexpected)
    assert store_path.read_bytes() == before


def test_file_that_is_no_database_is_refused(store_path: Path) -> None:
    store_path.write_bytes(b"not a store " * 1000)
    with pytest.raises(StoreError, match="file is not a database; the file is damaged or of another program"):
        Store(store_path, call, unexpected)
    assert not store_path.with_suffix(".sqlite-wal").exists()


def test_damaged_file_is_refused(store_path: Path) -> None:
    store = Store(store_path, call, unexpected)
    for round in range(1, 30):
        run_exchange(store, round, 0)
    store.close()
    with open(store_path, "r+b") as file:
        file.seek(4096)
        file.write(os.urandom(store_path.stat().st_size - 2 * 4096))
    with pytest.raises(StoreError, match=r"malformed: .*damaged: put back a copy"):
        Store(store_path, call, unexpected)


def test_older_file_is_migrated_and_keeps_its_content(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(store_path, call, unexpected)
    store.put_meta("key", "value")
    store.close()
    version = len(schema.MIGRATIONS) + 1
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "ALTER TABLE kept ADD COLUMN note TEXT;"))
    store = Store(store_path, call, unexpected)
    assert meta(store) == {"key": "value"}
    store.close()
    with sqlite3.connect(store_path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (version,)
        assert connection.execute("SELECT count(note) FROM kept").fetchone() == (0,)
    connection.close()


def test_migration_that_fails_leaves_the_file_as_it_was(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(store_path, call, unexpected).close()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "CREATE TABLE half (x); SELECT nonsense;"))
        with pytest.raises(StoreError, match="nonsense"):
            Store(store_path, call, unexpected)
    assert reopened(store_path).next_round == 1
    with sqlite3.connect(store_path) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'half'").fetchone() == (0,)
    connection.close()


def test_what_a_killed_process_left_beside_a_store_is_put_into_it(store_path: Path, tmp_path: Path) -> None:
    left = tmp_path / "left" / store_path.name
    left.parent.mkdir()
    store = Store(store_path, call, unexpected)
    store.put_meta("found", "again")
    assert meta(store) == {"found": "again"}
    for path in store_path.parent.glob(f"{store_path.name}*"):
        shutil.copy(path, left.parent)
    store.close()
    assert left.with_name(f"{left.name}-wal").stat().st_size > 0
    schema.settle(left)
    assert sorted(path.name for path in left.parent.iterdir()) == [left.name, f"{left.name}.lock"]
    with reading(left) as connection:
        assert connection.execute("SELECT * FROM meta").fetchall() == [("found", "again")]


def test_a_store_that_was_not_finished_when_its_process_was_killed_is_told_of(store_path: Path) -> None:
    sqlite3.connect(store_path).close()
    store_path.touch()
    with pytest.raises(ConfigError, match="its store was not finished; start it again"), reading(store_path):
        pass


def test_one_that_has_lost_what_was_told_of_is_damaged(store_path: Path) -> None:
    sqlite3.connect(store_path).close()
    store_path.touch()
    store_path.with_name("metrics.jsonl").write_text("{}")
    told = "got nothing, although metrics.jsonl tells of it; put back store.sqlite-wal"
    with pytest.raises(DamagedStoreError, match=told), reading(store_path):
        pass


@pytest.mark.parametrize("content", [b"not a store " * 1000, None])
def test_a_store_that_cannot_be_read_says_what_to_do_and_what_is_left(store_path: Path, content: bytes | None) -> None:
    store = Store(store_path, call, unexpected)
    for round in range(1, 30):
        run_exchange(store, round, 0)
    store.close()
    store_path.write_bytes(content or store_path.read_bytes()[:20_000])
    store_path.with_name("metrics.jsonl").write_text("{}")
    with pytest.raises(DamagedStoreError) as damaged, reading(store_path) as connection:
        read_rounds(connection)
    cause, *advice = str(damaged.value).split("; ")
    assert cause == damaged.value.what
    assert advice[0].startswith("the file is damaged")
    assert "put back a copy of" in advice[0]
    assert advice[1:] == [f"coordinator report {store_path.parent} still tells of the rounds in metrics.jsonl"]


def test_a_store_that_is_gone_is_told_by_what_it_has_left_behind(store_path: Path) -> None:
    def why() -> str:
        with pytest.raises(ConfigError) as missing, reading(store_path):
            pass
        return str(missing.value).removeprefix(f"{store_path.parent}: there is no store.sqlite: ")

    assert why() == NO_STORE
    store_path.with_name("store.sqlite-wal").write_text("log")
    assert why().startswith("the run has begun, by store.sqlite-wal, and has lost it or was kept in memory alone")
    store_path.with_name("metrics.jsonl").write_text("{}")
    assert why().startswith("the run has begun, by metrics.jsonl and store.sqlite-wal, and has lost it")
    assert why().endswith(f"; coordinator report {store_path.parent} still tells of the rounds in metrics.jsonl")


def test_an_error_of_a_file_says_where_it_was_and_what_to_do(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    advice = "No space left on device; free some disk space"
    assert schema.in_words(full, tmp_path) == f"{tmp_path}: {advice}"
    full.filename = "/there"
    assert schema.in_words(full, tmp_path) == f"/there: {advice}"
    assert schema.in_words(StoreError("all is said"), tmp_path) == "all is said"
    assert schema.in_words(OSError("all is said"), tmp_path) == "all is said"
