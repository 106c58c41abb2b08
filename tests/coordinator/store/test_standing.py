"""What a process of a run goes on from, for every place that a kill can leave the store in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator.aggregator import commands
from coordinator.metrics.tally import (
    ClientLine,
    Cost,
    ExchangeLine,
    Refusals,
    Report,
    RoundLine,
    Traffic,
    read_line,
    write_line,
)
from coordinator.round_rules import Position
from coordinator.store.run_folder import run_token
from coordinator.store.standing import Standing, Told, read_standing, stored_lines
from coordinator.store.store import SPILL_BYTES, RoundRecord, Store, StoredUpdate
from tests.coordinator.accounting import TWO
from tests.coordinator.stores import call, complete, nothing, unexpected
from wire.encoding import Packed, encode, pack
from wire.limits import PIPE_BYTES
from wire.messages import Evaluation, Ready, Task, Update
from wire.payload import Payload
from wire.timing import Timing

RUN_ID = "pairs-1"
NUM_EXCHANGES = len(TWO.exchanges)
DOWNLINK = pack(Payload.of_state({"means": np.arange(4.0, dtype=np.float32)}))
READY = Ready(run_token(RUN_ID), 30, 10, [10, 20], 2, 100, 0, [5, 5])
TIMING = Timing(1_000_000, 2_000_000, 3_000_000, 4_000_000)
EVALUATIONS = [Evaluation(1, 10, {0: 7})]


@pytest.fixture
def store(store_path: Path) -> Iterator[Store]:
    store = Store(store_path, call, unexpected)
    yield store
    store.close()


def standing(store: Store) -> Standing:
    return read_standing(store, store.facts(), store.position(), TWO, Told(RUN_ID, True, True))


def state(value: float) -> Packed:
    return pack(Payload.of_state({"state": np.array([value])}))


def frames(message: Any, packed: Packed) -> tuple[bytes, bytes]:
    header, buffer = encode(message, packed, PIPE_BYTES)
    return bytes(header), bytes(buffer)


def open_exchange(store: Store, round: int, exchange: int, answered: str = "", cohort: str = "ab") -> None:
    """Open an exchange, and let some clients of the cohort answer, `b` with a large update."""
    store.open_exchange(round, exchange, list(cohort), *frames(commands.Configured(), DOWNLINK))
    for client in answered:
        store.put_updates([update(client, round, exchange)], nothing)


def packed_update(client: str) -> Packed:
    return pack(Payload.of_state({"update": np.ones(SPILL_BYTES if client == "b" else 2, np.float32)}))


def update(client: str, round: int, exchange: int) -> StoredUpdate:
    message = Update(run_token(RUN_ID), round, exchange, EVALUATIONS)
    header, buffer = frames(message, packed_update(client))
    return StoredUpdate(round, exchange, client, 30, header, buffer, TIMING.frame() if client == "a" else b"")


def close_exchange(store: Store, round: int, exchange: int, value: float | None = None) -> None:
    header, buffer = frames(commands.Begin({}, "", False, 0), state(value)) if value is not None else (None, None)
    store.close_exchange(round, exchange, header, buffer, [], nothing)


def run_round(store: Store, round: int) -> None:
    for exchange in range(NUM_EXCHANGES):
        open_exchange(store, round, exchange)
        close_exchange(store, round, exchange, round + exchange / 10)
    complete(store, round, "ab")


KEPT = {"a": 1, "b": 1}


def test_an_empty_store_is_the_very_beginning(store: Store) -> None:
    assert standing(store) == Standing()


def test_an_open_exchange_goes_on_with_its_cohort_and_its_updates(store: Store) -> None:
    run_round(store, 1)
    open_exchange(store, 2, 0)
    close_exchange(store, 2, 0, 2.0)
    open_exchange(store, 2, 1, answered="ba", cohort="abc")
    found = standing(store)
    everybody = frozenset("abc")
    assert found.position == Position(2, 1, 0, KEPT, exchange=1, cohort=everybody, answered=frozenset("ab"))
    assert (found.start_state, found.latest_state, found.downlink) == (state(1.1), state(2.0), DOWNLINK)
    task = encode(Task(run_token(RUN_ID), 2, 1, kept=1, base=1), DOWNLINK)
    small, large = found.updates
    assert (small.client, small.num_train, small.is_spilled, small.packed) == ("a", 30, False, packed_update("a"))
    assert (large.client, large.is_spilled, large.packed) == ("b", True, packed_update("b")._replace(buffer=b""))
    for held in found.updates:
        packed = packed_update(held.client)
        assert held.task_cost == Cost.of(DOWNLINK, task, True)
        assert held.cost == Cost.of(packed, encode(Update(run_token(RUN_ID), 2, 1, EVALUATIONS), packed), True)
    assert (small.report, large.report) == (Report.of(EVALUATIONS, TIMING), Report(EVALUATIONS))


def test_between_two_exchanges_the_next_one_is_to_be_opened(store: Store) -> None:
    run_round(store, 1)
    open_exchange(store, 2, 0, answered="a", cohort="ac")
    close_exchange(store, 2, 0, 2.0)
    found = standing(store)
    assert found.position == Position(2, 1, 0, KEPT, exchange=1, cohort=frozenset("ac"), accepted=frozenset("a"))
    assert [found.position.kept_of(client) for client in "abc"] == [2, 1, 0]
    assert (found.start_state, found.latest_state) == (state(1.1), state(2.0))
    assert (found.downlink, found.updates) == (None, [])


def test_between_two_rounds_the_next_one_is_to_be_opened(store: Store) -> None:
    run_round(store, 1)
    for round in (2, 3):
        open_exchange(store, round, 0)
        close_exchange(store, round, 0, 9.0)
        store.close_round(RoundRecord(round, "failed"), [])
    found = standing(store)
    assert found.position == Position(4, 1, 2, KEPT)
    assert found.start_state == found.latest_state == state(1.1)


def test_an_open_evaluation_is_that_of_the_last_round(store: Store) -> None:
    run_round(store, 1)
    open_exchange(store, 1, NUM_EXCHANGES, answered="a")
    found = standing(store).position
    assert found == Position(1, 1, 0, KEPT, NUM_EXCHANGES, cohort=frozenset("ab"), answered=frozenset("a"))


def test_a_closed_evaluation_is_known(store: Store) -> None:
    run_round(store, 1)
    assert standing(store).position == Position(2, 1, 0, KEPT)
    open_exchange(store, 1, NUM_EXCHANGES, answered="a")
    close_exchange(store, 1, NUM_EXCHANGES)
    assert standing(store).position == Position(2, 1, 0, KEPT, is_evaluated=True)


def test_what_was_made_and_told_at_the_start_is_there(store: Store) -> None:
    store.put_start(*frames(commands.Begin({}, "", False, 0), state(0.5)))
    store.put_meta("start_classes", "[0, 2]")
    store.put_client("a", bytes(encode(READY)[0]))
    assert standing(store).constants is None
    store.put_constant("masks", "digest", *frames(commands.ConstantMade("masks", "digest"), DOWNLINK))
    assert standing(store).constants is None
    store.put_meta("begun", "")
    store.put_meta("num_train", "35")
    found = standing(store)
    assert [(made.name, made.digest, made.packed) for made in found.constants or []] == [("masks", "digest", DOWNLINK)]
    assert (found.num_train, found.start_classes, found.announced) == (35, frozenset({0, 2}), {"a": READY})
    assert found.start_state == found.latest_state == state(0.5)


def test_a_method_without_constants_has_begun_too(store: Store) -> None:
    store.put_meta("begun", "")
    assert standing(store).constants == []


# Lines


def client_line(round: int, exchange: int) -> str:
    nothing_sent = Traffic()
    return write_line(ClientLine(round, "x", exchange, 0, "a", "accepted", nothing_sent, nothing_sent))


def exchange_line(round: int, exchange: int) -> str:
    return write_line(ExchangeLine(round, "x", exchange, 1.0, {}, [], Traffic(), Refusals()))


def round_line(round: int) -> str:
    counts = (1, 0, 0, 1)
    return write_line(
        RoundLine(round, "completed", "", "", 1.0, None, *counts, Traffic(), Traffic(), [], Traffic(), Refusals())
    )


def test_lines_come_back_in_the_order_of_a_run_without_a_restart(store: Store) -> None:
    """The second round fails with its exchange open, the third is the last, and the evaluation follows it."""
    expected = []
    for round, exchanges in ((1, (0, 1)), (2, ()), (3, (0, 1))):
        for exchange in exchanges:
            lines = [client_line(round, exchange), exchange_line(round, exchange)]
            store.open_exchange(round, exchange, ["a"], b"", b"")
            store.close_exchange(round, exchange, None, None, lines, nothing)
            expected += lines
        left_open = [] if exchanges else [client_line(round, 0)]
        store.close_round(RoundRecord(round, "completed", line=round_line(round)), [], left_open)
        expected += [*left_open, round_line(round)]
    assert list(stored_lines(store, TWO)) == expected
    store.open_exchange(3, NUM_EXCHANGES, ["a"], b"", b"")
    store.close_exchange(3, NUM_EXCHANGES, None, None, [client_line(3, NUM_EXCHANGES)], nothing)
    assert list(stored_lines(store, TWO)) == [*expected, client_line(3, NUM_EXCHANGES)]
    assert all(read_line(line) for line in expected)


def test_a_new_run_has_no_lines(store: Store) -> None:
    assert list(stored_lines(store, TWO)) == []
