"""The store: every call comes back as what a restart needs, and only that."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from coordinator.store.store import (
    SPILL_BYTES,
    ClosedExchange,
    RoundRecord,
    Store,
    StoredConstant,
    StoredPosition,
    StoredUpdate,
    StoreError,
)
from coordinator.store.stored import StoredState, read_position, reading
from tests.coordinator.stores import LARGE, call, complete, meta, nothing, run_exchange, unexpected, update
from wire.encoding import encode
from wire.messages import Ready


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, store_path: Path) -> Iterator[Store]:
    store = Store(store_path if request.param == "disk" else None, call, unexpected)
    yield store
    store.close()


def test_new_store_stands_before_round_one(store: Store) -> None:
    assert store.position() == StoredPosition(1, 0, 0, {}, None, None, None)
    assert (meta(store), store.constants(), store.round_records(), list(store.metric_lines())) == ({}, [], [], [])


def test_meta_is_overwritten_and_constants_keep_their_order(store: Store) -> None:
    store.put_meta("config", "old")
    store.put_meta("config", "new")
    store.put_constant("masks", "d1", b"h1", b"b1")
    store.put_constant("etf", "d2", b"h2", b"")
    assert meta(store) == {"config": "new"}
    assert store.constants() == [StoredConstant("masks", "d1", b"h1", b"b1"), StoredConstant("etf", "d2", b"h2", b"")]


def test_open_exchange_comes_back_with_its_updates_in_client_order(store: Store) -> None:
    store.open_exchange(1, 0, ["c", "a", "b"], b"down", b"link")
    for client in ("c", "a", "B"):
        store.put_updates([update(client, buffer=client.encode() * 3)], nothing)
    found = store.position().open_exchange
    assert found is not None
    assert (found.round, found.exchange, found.cohort) == (1, 0, ("c", "a", "b"))
    assert (found.downlink_header, found.downlink_buffer) == (b"down", b"link")
    assert found.updates == [update(client, buffer=client.encode() * 3) for client in ("B", "a", "c")]
    assert store.load_buffer(1, 0, "c") == b"ccc"


def test_any_contiguous_buffer_is_stored_as_its_bytes(store: Store) -> None:
    store.open_exchange(1, 0, ["small", "large"], b"", b"")
    small, large = np.arange(10.0), np.arange(float(SPILL_BYTES))
    store.put_updates([StoredUpdate(1, 0, "small", 1, b"", small.data, b"")], nothing)
    store.put_updates([StoredUpdate(1, 0, "large", 1, b"", large.data, b"")], nothing)
    assert store.position()
    assert store.load_buffer(1, 0, "small") == small.tobytes()
    assert store.load_buffer(1, 0, "large") == large.tobytes()


def test_closing_an_exchange_keeps_state_metrics_and_names_only(store: Store) -> None:
    run_exchange(store, 1, 0)
    position = store.position()
    assert position.open_exchange is None
    assert position.start_state is None
    assert position.latest_state == StoredState(b"head 1.0", b"state 1.0")
    assert store.closed_exchanges(1) == [ClosedExchange(1, 0, ("a", "b", "c"), ("a", "b", "c"))]
    assert [json.loads(line)["client"] for line in store.metric_lines()] == ["a", "b", "c"]
    with pytest.raises(StoreError, match="no update of 'a' in round 1, exchange 0"):
        store.load_buffer(1, 0, "a")


def test_completed_round_makes_its_last_state_the_next_start(store: Store) -> None:
    run_exchange(store, 1, 0)
    run_exchange(store, 1, 1, "ab")
    complete(store, 1, "ab")
    run_exchange(store, 2, 0)
    position = store.position()
    assert (position.next_round, position.base_round) == (2, 1)
    assert position.kept == {"a": 1, "b": 1}
    assert position.start_state == StoredState(b"head 1.1", b"state 1.1")
    assert position.latest_state == StoredState(b"head 2.0", b"state 2.0")
    complete(store, 2, "bc")
    position = store.position()
    assert position.kept == {"a": 1, "b": 2, "c": 2}
    assert position.start_state == position.latest_state == StoredState(b"head 2.0", b"state 2.0")


def test_a_run_may_start_from_a_state_of_its_own(store: Store) -> None:
    store.put_start(b"head 0", b"state 0")
    run_exchange(store, 1, 0)
    store.close_round(RoundRecord(1, "failed"), [])
    assert store.position().start_state == store.position().latest_state == StoredState(b"head 0", b"state 0")
    run_exchange(store, 2, 0)
    assert store.position().start_state == StoredState(b"head 0", b"state 0")
    complete(store, 2)
    assert store.position().start_state == StoredState(b"head 2.0", b"state 2.0")


def test_the_last_word_of_each_client_is_kept(store: Store) -> None:
    said = [Ready(1, num_train, 0, [num_train], 2, 3, 0) for num_train in (1, 2, 3)]
    for client, ready in zip("bab", said, strict=True):
        store.put_client(client, bytes(encode(ready)[0]))
    assert list(store.announced().items()) == [("a", said[1]), ("b", said[2])]


def test_failed_round_goes_back_to_its_start(store: Store) -> None:
    run_exchange(store, 1, 0)
    complete(store, 1)
    for round in (2, 3):
        run_exchange(store, round, 0)
        store.open_exchange(round, 1, ["a", "b"], b"down", b"link")
        store.put_updates([update("a", LARGE, round, 1)], nothing)
        store.close_round(RoundRecord(round, "failed", "no quorum"), ["a"])
    position = store.position()
    assert position == StoredPosition(
        next_round=4,
        base_round=1,
        failed_in_a_row=2,
        kept={"a": 1, "b": 1, "c": 1},
        open_exchange=None,
        start_state=StoredState(b"head 1.0", b"state 1.0"),
        latest_state=StoredState(b"head 1.0", b"state 1.0"),
    )
    assert [found.exchange for found in store.closed_exchanges(2)] == [0]
    run_exchange(store, 4, 0)
    complete(store, 4)
    assert (store.position().base_round, store.position().failed_in_a_row) == (4, 0)


def test_round_records_come_back_whole(store: Store) -> None:
    records = [
        RoundRecord(1, "completed", "", "hash", 1_700_000_000.5, '{"accepted": 3}'),
        RoundRecord(2, "failed", "1 of 2 clients", "", 1_700_000_001.0, "{}"),
    ]
    for record in records:
        store.close_round(record, [])
    assert store.round_records() == records


def test_evaluation_after_the_last_round_changes_no_state(store: Store) -> None:
    run_exchange(store, 1, 0)
    complete(store, 1)
    store.open_exchange(1, 1, ["a"], b"", b"")
    found = store.position()
    assert found.next_round == 2
    assert found.open_exchange is not None
    assert found.open_exchange.round == 1
    store.close_exchange(1, 1, None, None, [], nothing)
    assert store.position().latest_state == StoredState(b"head 1.0", b"state 1.0")
    assert [closed.exchange for closed in store.closed_exchanges(1)] == [0, 1]


def test_metric_lines_stream_in_order_over_many_pages(store: Store) -> None:
    lines = [json.dumps({"exchange_index": 0, "number": number}) for number in range(1201)]
    store.open_exchange(1, 0, [], b"", b"")
    store.close_exchange(1, 0, None, None, lines, nothing)
    assert list(store.metric_lines()) == lines


def test_lines_of_an_exchange_that_a_failed_round_left_open_are_stored_with_the_round(store: Store) -> None:
    run_exchange(store, 1, 0, "a")
    store.open_exchange(1, 1, ["a", "b"], b"", b"")
    lines = [json.dumps({"exchange_index": 1, "client": client}) for client in "ab"]
    store.close_round(RoundRecord(1, "failed"), [], lines)
    assert list(store.metric_lines())[1:] == lines


def test_only_the_start_and_the_latest_state_are_kept(store_path: Path) -> None:
    store = Store(store_path, call, unexpected)
    for round in (1, 2, 3):
        for exchange in range(3):
            run_exchange(store, round, exchange)
            store.position()
            with sqlite3.connect(store_path) as reader:
                assert reader.execute("SELECT count(*) FROM states").fetchone()[0] == (1 if round == 1 else 2)
            reader.close()
        complete(store, round)
    store.close()


def test_a_closed_store_is_read_without_leaving_anything_beside_it(store_path: Path) -> None:
    store = Store(store_path, call, unexpected)
    complete(store, 1)
    with reading(store_path):  # as somebody does who looks at the run while it goes on
        assert store.position().next_round == 2
        store.close()
    for _ in range(2):  # nobody reads it when this one is closed
        Store(store_path, call, unexpected).close()
        with reading(store_path) as connection:
            assert read_position(connection).next_round == 2
        assert sorted(path.name for path in store_path.parent.glob(f"{store_path.name}*")) == [
            store_path.name,
            f"{store_path.name}.lock",
        ]


def test_file_is_bounded_by_one_exchange(store_path: Path) -> None:
    store = Store(store_path, call, unexpected)
    sizes = []
    for round in range(1, 41):
        store.open_exchange(round, 0, list("abcd"), b"down", bytes(100_000))
        for client in "abcd":
            store.put_updates([update(client, bytes(100_000), round)], nothing)
        store.close_exchange(round, 0, b"head", bytes(100_000), [], nothing)
        complete(store, round)
        store.position()
        sizes.append(store_path.stat().st_size + store_path.with_suffix(".sqlite-wal").stat().st_size)
    store.close()
    assert max(sizes[20:]) <= 1.1 * max(sizes[:20])
