"""Kills and failing disks: what was acknowledged is there, what was not leaves no trace, each failure is said once."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from coordinator.store import schema
from coordinator.store.store import Store, StoredUpdate, StoreError
from tests.coordinator.stores import (
    LARGE,
    WAIT_S,
    Failures,
    call,
    complete,
    files,
    meta,
    never,
    nothing,
    reopened,
    run_exchange,
    unexpected,
    update,
)

KILLED = f"""
import os, signal, sys
from pathlib import Path
from coordinator.store.store import Store, StoredUpdate

def acknowledge(client):
    os.write(1, client.encode() + b"\\n")
    if client == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

store = Store(Path(sys.argv[1]), lambda callback: callback(), sys.exit)
store.open_exchange(1, 0, ["asked"], b"down", b"link")
for number in range(400):
    client = f"{{number:03d}}"
    size = {len(LARGE)} if number % 40 == 0 else 100
    update = StoredUpdate(1, 0, client, 1, b"", client.encode() * size, b"")
    store.put_updates([update], lambda client=client: acknowledge(client))
store.close()
"""


@pytest.mark.parametrize("last", ["000", "040", "123", "399"])
def test_what_was_acknowledged_before_a_kill_is_there(store_path: Path, last: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", KILLED, str(store_path), last],
        cwd=Path(schema.__file__).parents[2],
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    acknowledged = child.stdout.decode().split()
    assert acknowledged[-1] == last
    store = Store(store_path, call, unexpected)
    opened = store.position().open_exchange
    assert opened is not None
    assert (opened.cohort, opened.downlink_buffer) == (("asked",), b"link")
    stored = [found.client for found in opened.updates]
    assert stored[: len(acknowledged)] == acknowledged
    for found in opened.updates:
        size = len(LARGE) if found.buffer is None else 100
        assert store.load_buffer(1, 0, found.client) == found.client.encode() * size
    assert len(files(store_path)) == sum(found.buffer is None for found in opened.updates)
    store.close()


KILLED_BEFORE_COMMIT = """
import os, signal, sys
from pathlib import Path
from coordinator.store.buffers import BufferFolder
from coordinator.store.store import Store, StoredUpdate

write = BufferFolder.write
def write_and_die(folder, key, buffer):
    write(folder, key, buffer)
    if key[2] == "b":
        os.kill(os.getpid(), signal.SIGKILL)
BufferFolder.write = write_and_die

store = Store(Path(sys.argv[1]), lambda callback: callback(), sys.exit)
store.open_exchange(1, 0, ["a", "b"], b"down", b"link")
for client in "ab":
    store.put_updates([StoredUpdate(1, 0, client, 1, b"", bytes(300_000), b"")], lambda: None)
    store.position()
"""


def test_update_killed_between_file_and_commit_can_be_sent_again(store_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", KILLED_BEFORE_COMMIT, str(store_path)],
        cwd=Path(schema.__file__).parents[2],
        capture_output=True,
        timeout=WAIT_S,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    assert len(files(store_path)) == 2
    store = Store(store_path, call, unexpected)
    opened = store.position().open_exchange
    assert opened is not None
    assert [found.client for found in opened.updates] == ["a"]
    assert len(files(store_path)) == 1
    store.put_updates([update("b", LARGE)], nothing)
    store.position()
    assert store.load_buffer(1, 0, "b") == LARGE
    store.close()


def test_full_disk_is_said_once_and_nothing_is_acknowledged_after(
    store_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "SETTINGS", (*schema.SETTINGS, "PRAGMA max_page_count = 60"))
    failures = Failures()
    acknowledged: list[str] = []
    store = Store(store_path, call, failures)
    store.open_exchange(1, 0, [], b"", b"")
    for number in range(10):
        store.put_updates([update(str(number), bytes(50_000))], partial(acknowledged.append, str(number)))
        with contextlib.suppress(StoreError):
            store.position()  # waits, so that each update has a transaction of its own
    text = failures.only()
    assert f"store {store_path}: database or disk is full; free some disk space" in text
    store.put_meta("late", "", on_durable=lambda: acknowledged.append("late"))
    with pytest.raises(StoreError, match="disk is full"):
        store.position()
    store.close()
    assert len(failures) == 1
    monkeypatch.undo()
    opened = reopened(store_path).open_exchange
    assert opened is not None
    assert acknowledged == [found.client for found in opened.updates] != []


def test_buffer_that_does_not_fit_the_disk_is_not_acknowledged(store_path: Path) -> None:
    failures = Failures()
    store = Store(store_path, call, failures)
    store.open_exchange(1, 0, ["a"], b"", b"")
    store.position()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        store.put_updates([update("a", bytes(1 << 21))], never)
        assert "File too large; see to the cause" in failures.only()
        store.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    opened = reopened(store_path).open_exchange
    assert opened is not None
    assert opened.updates == []
    assert files(store_path) == []


def test_store_that_became_read_only_fails(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(store_path, call, unexpected).close()
    monkeypatch.setattr(schema, "SETTINGS", (*schema.SETTINGS, "PRAGMA query_only = ON"))
    failures = Failures()
    store = Store(store_path, call, failures)
    store.put_meta("key", "value", on_durable=never)
    assert "readonly database; make the file and its folder writable" in failures.only()
    store.close()


def test_a_read_only_file_system_is_to_be_mounted_anew(store_path: Path) -> None:
    told = str(schema.explain(store_path, OSError(errno.EROFS, os.strerror(errno.EROFS))))
    assert "Read-only file system; mount the folder's file system to be written to" in told


def test_store_locked_by_another_program_fails(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "BUSY_TIMEOUT_S", 0.01)
    failures = Failures()
    store = Store(store_path, call, failures)
    other = sqlite3.connect(store_path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.put_meta("key", "value", on_durable=never)
    assert "database is locked; close the other program" in failures.only()
    other.execute("ROLLBACK")
    other.close()
    store.close()
    again = Store(store_path, call, unexpected)
    assert meta(again) == {}
    again.close()


def test_same_update_twice_is_a_fault_and_the_first_one_stays(store_path: Path) -> None:
    failures = Failures()
    store = Store(store_path, call, failures)
    store.open_exchange(1, 0, ["a"], b"", b"")
    store.put_updates([update("a", LARGE)], nothing)
    store.position()
    store.put_updates([update("a", LARGE[::-1])], never)
    assert "UNIQUE constraint failed" in failures.only()
    store.close()
    again = Store(store_path, call, unexpected)
    assert again.load_buffer(1, 0, "a") == LARGE
    again.close()


MISUSES: dict[str, list[Callable[[Store], None]]] = {
    "no exchange": [lambda store: store.put_updates([update("a")], nothing)],
    "closed, never opened": [lambda store: store.close_exchange(1, 0, b"", b"", [], nothing)],
    "late update": [lambda store: run_exchange(store, 1, 0), lambda store: store.put_updates([update("d")], nothing)],
    "two open": [lambda store, n=n: store.open_exchange(1, n, [], b"", b"") for n in (0, 1)],  # type: ignore[misc]
    "round twice": [lambda store: complete(store, 1)] * 2,
    "constant twice": [lambda store: store.put_constant("masks", "digest", b"", b"")] * 2,
    "no buffer": [
        lambda store: store.open_exchange(1, 0, ["a"], b"", b""),
        lambda store: store.put_updates([StoredUpdate(1, 0, "a", 1, b"", None, b"")], nothing),
    ],
    "metrics that are no JSON": [
        lambda store: store.open_exchange(1, 0, [], b"", b""),
        lambda store: store.close_exchange(1, 0, None, None, ["no json"], nothing),
    ],
}


@pytest.mark.parametrize("calls", MISUSES.values(), ids=MISUSES.keys())
def test_misuse_surfaces(calls: list[Callable[[Store], None]]) -> None:
    failures = Failures()
    store = Store(None, call, failures)
    for misuse in calls:
        misuse(store)
    assert "store in memory: " in failures.only()
    store.close()
