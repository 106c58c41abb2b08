"""Group commit: what gathers is one transaction, and nothing is acknowledged before it is durable."""

from __future__ import annotations

import contextlib
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from coordinator.store import writer
from coordinator.store.store import Store, StoreError
from tests.coordinator.stores import WAIT_S, Failures, Gate, call, meta, never, unexpected, update


def test_what_gathers_during_a_commit_is_one_transaction(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []
    monkeypatch.setattr(writer, "reach", reached.append)
    store = Store(store_path, call, unexpected)
    gate, done = Gate(store), threading.Event()
    order: list[int] = []
    store.open_exchange(1, 0, [], b"", b"")
    for number in range(1000):
        store.put_updates([update(f"{number:04d}")], partial(order.append, number))
    store.put_meta("last", "", on_durable=done.set)
    gate.open()
    assert done.wait(WAIT_S)
    assert order == list(range(1000))
    assert reached.count("store.committed") <= 2
    store.close()


def test_what_is_written_together_is_there_together_or_not_at_all(store_path: Path) -> None:
    failures = Failures()
    store = Store(store_path, call, failures)
    with store.together():
        store.put_meta("first", "")
        store.put_meta("second", "")
        assert meta(store) == {}
    assert meta(store) == {"first": "", "second": ""}
    with contextlib.suppress(KeyError), store.together():
        store.put_meta("given up", "", on_durable=never)
        raise KeyError
    with store.together():
        store.put_meta("third", "", on_durable=never)
        store.put_updates([update()], never)
    assert "is not open" in failures.only()
    store.close()
    again = Store(store_path, call, unexpected)
    assert meta(again) == {"first": "", "second": ""}
    again.close()


def test_nothing_is_durable_before_its_transaction_is(store_path: Path) -> None:
    """A second connection, which sees only what is committed, finds the row when the callback runs."""
    store = Store(store_path, call, unexpected)
    seen: list[int] = []

    def look() -> None:
        reader = sqlite3.connect(store_path)
        seen.append(reader.execute("SELECT count(*) FROM updates").fetchone()[0])
        reader.close()

    store.open_exchange(1, 0, ["a"], b"", b"")
    store.put_updates([update()], look)
    store.close()
    assert seen == [1]


def test_callbacks_run_where_notify_puts_them() -> None:
    waiting: list[Callable[[], None]] = []
    heard: list[str] = []
    store = Store(None, waiting.append, unexpected)
    store.put_meta("key", "value", on_durable=lambda: heard.append("durable"))
    store.close()
    assert (heard, len(waiting)) == ([], 1)
    waiting[0]()
    assert heard == ["durable"]


def test_close_commits_what_is_queued_and_is_final(store_path: Path) -> None:
    store = Store(store_path, call, unexpected)
    for number in range(200):
        store.put_meta(str(number), "")
    store.close()
    store.close()
    with pytest.raises(StoreError, match="after it was closed"):
        store.position()
    with pytest.raises(StoreError, match="after it was closed"):
        store.put_meta("late", "")
    again = Store(store_path, call, unexpected)
    assert len(meta(again)) == 200
    again.close()


def test_a_store_in_memory_is_written_by_its_caller_and_not_by_a_thread() -> None:
    wrote: list[int] = []
    num_threads = threading.active_count()
    store = Store(None, call, unexpected)
    store.open_exchange(1, 0, ["a"], b"", b"")
    store.put_updates([update()], lambda: wrote.append(threading.get_ident()))
    assert (wrote, threading.active_count()) == ([threading.get_ident()], num_threads)
    store.close()


def test_memory_store_acknowledges_in_well_under_a_millisecond() -> None:
    store = Store(None, call, unexpected)
    store.open_exchange(1, 0, [], b"", b"")
    durable = threading.Event()
    times = []
    for number in range(300):
        durable.clear()
        start = time.perf_counter()
        store.put_updates([update(str(number), bytes(2000))], durable.set)
        assert durable.wait(WAIT_S)
        times.append(time.perf_counter() - start)
    store.close()
    assert statistics.median(times) < 0.001
