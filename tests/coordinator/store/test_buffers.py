"""Large buffers lie in files, exactly as long as a row names them."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

import numpy as np
import pytest

from coordinator.store.store import RoundRecord, Store, StoredUpdate, StoreError
from tests.coordinator.stores import LARGE, Gate, call, files, nothing, unexpected, update


def test_large_buffer_is_a_file_until_its_exchange_closes(store_path: Path) -> None:
    store = Store(store_path, call, unexpected)
    store.open_exchange(1, 0, ["a", "b", "../c"], b"", b"")
    store.put_updates([update("a", LARGE)], nothing)
    store.put_updates([update("../c", LARGE[::-1])], nothing)
    store.put_updates([update("b", LARGE[:-1])], nothing)
    opened = store.position().open_exchange
    assert opened is not None
    assert [found.buffer for found in opened.updates] == [None, None, LARGE[:-1]]
    assert [file.stat().st_size for file in files(store_path)] == [len(LARGE)] * 2
    assert store.load_buffer(1, 0, "a") == LARGE
    assert store.load_buffer(1, 0, "../c") == LARGE[::-1]
    left: list[int] = []
    store.close_exchange(1, 0, None, None, [], lambda: left.append(len(files(store_path))))
    store.close()
    assert left == [0]


def test_failed_round_deletes_its_files(store_path: Path) -> None:
    store = Store(store_path, call, unexpected)
    store.open_exchange(1, 0, ["a"], b"", b"")
    store.put_updates([update("a", LARGE)], nothing)
    store.close_round(RoundRecord(1, "failed"), [])
    store.close()
    assert files(store_path) == []


def test_a_round_closed_in_the_same_batch_leaves_the_next_exchanges_file(store_path: Path) -> None:
    store = Store(store_path, call, unexpected)
    gate = Gate(store)
    store.close_round(RoundRecord(1, "completed"), [])
    store.open_exchange(1, 1, ["a"], b"", b"")
    store.put_updates([update("a", LARGE, 1, 1)], nothing)
    gate.open()
    store.position()
    assert store.load_buffer(1, 1, "a") == LARGE
    store.close()


def test_store_holds_no_buffer_once_it_is_durable(store_path: Path) -> None:
    store = Store(store_path, call, unexpected)
    store.open_exchange(1, 0, ["a", "b"], b"", b"")
    for client, size in (("a", 100), ("b", len(LARGE))):
        array = np.zeros(size, np.uint8)
        alive = weakref.ref(array)
        store.put_updates([StoredUpdate(1, 0, client, 1, b"", array.data, b"")], nothing)
        del array
        assert store.position()
        assert alive() is None
    store.close()


def test_files_without_a_row_are_deleted_on_opening(store_path: Path) -> None:
    store = Store(store_path, call, unexpected)
    store.open_exchange(1, 0, ["a"], b"", b"")
    store.put_updates([update("a", LARGE)], nothing)
    store.close()
    (file,) = files(store_path)
    stray = file.with_name("000001-00-" + "0" * 32)
    stray.write_bytes(b"of an update whose row was never committed")
    again = Store(store_path, call, unexpected)
    assert files(store_path) == [file]
    assert again.load_buffer(1, 0, "a") == LARGE
    again.close()


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_row_without_its_whole_file_is_refused(store_path: Path, damage: str) -> None:
    store = Store(store_path, call, unexpected)
    store.open_exchange(1, 0, ["a"], b"", b"")
    store.put_updates([update("a", LARGE)], nothing)
    store.close()
    (file,) = files(store_path)
    if damage == "missing":
        file.unlink()
    else:
        os.truncate(file, 100)
    got = "no file" if damage == "missing" else "100"
    with pytest.raises(StoreError, match=f"{file.name}: expected {len(LARGE)} bytes, got {got}; put back the file"):
        Store(store_path, call, unexpected)
