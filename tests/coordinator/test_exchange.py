"""The exchange in hand: which uplinks are of it, and what the server half is given of them."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from coordinator.exchange import MAX_TOLD, OpenExchange
from models.methods.api import Exchange
from tests.coordinator.accounting import TWO
from wire.encoding import Packed, decode, encode, pack, unpack
from wire.messages import Update
from wire.payload import EMPTY, Nothing, Payload, Record, RecordError, Tensor, class_ids, counts, values


@dataclass(frozen=True)
class Uplink(Record):
    prototypes: np.ndarray = values("C", "D")
    counts: np.ndarray = counts("C")
    classes: np.ndarray = class_ids("C")


DECLARED = Exchange("prototypes", Nothing, Uplink, lambda facts: {}, lambda facts: {})
DIMS = {"C": 2, "D": 3, "K": 4}
DOWNLINK = pack(EMPTY)


def anything(record: Record) -> None:
    """Refuse nothing."""


def open_exchange(declared: Exchange = DECLARED) -> OpenExchange:
    return OpenExchange(2, 0, declared, DOWNLINK)


def uplink(**changes: Any) -> Packed:
    fields: dict[str, Any] = {"prototypes": np.ones((2, 3), np.float32), "counts": [3, 0], "classes": [0, 2]}
    return pack(Uplink(**{**fields, **changes}).to_payload())


def test_an_uplink_of_the_exchange_fits() -> None:
    assert open_exchange().misfit(uplink(), DIMS, {}, anything) is None


@pytest.mark.parametrize(
    ("packed", "misfit"),
    [
        (
            uplink(counts=[3], classes=[2]),
            "exchange 'prototypes': field 'counts': expected C = 2, got 1 (shape (1,))",
        ),
        (
            uplink(prototypes=np.ones((2, 5), np.float32)),
            "exchange 'prototypes': field 'prototypes': expected D = 3, got 5 (shape (2, 5))",
        ),
        (uplink(classes=[0, 4]), "exchange 'prototypes': field 'classes': expected class ids below 4, got 4"),
        (
            uplink(classes=[1, 1]),
            "exchange 'prototypes': field 'classes': expected strictly increasing class ids, got [1, 1]",
        ),
        (
            pack(Payload({"weights": Tensor("f32", np.ones(1))})),
            "exchange 'prototypes': expected fields ['classes', 'counts', 'prototypes'], got ['weights']",
        ),
        (pack(EMPTY), "exchange 'prototypes': expected fields ['classes', 'counts', 'prototypes'], got []"),
    ],
    ids=[
        "a count too few",
        "another feature dimension",
        "an unknown class",
        "a class twice",
        "another record",
        "empty",
    ],
)
def test_a_misfit_says_the_exchange_what_was_expected_and_what_came(packed: Packed, misfit: str) -> None:
    assert open_exchange().misfit(packed, DIMS, {}, anything) == misfit


def test_values_that_are_not_finite_are_a_misfit() -> None:
    packed = uplink()
    broken = np.frombuffer(packed.buffer, np.uint8).copy()
    broken[4:8] = np.frombuffer(np.float32("nan").tobytes(), np.uint8)
    text = open_exchange().misfit(packed._replace(buffer=broken.tobytes()), DIMS, {}, anything, ["cat", "dog", "owl"])
    assert text == "exchange 'prototypes': field 'prototypes', class 'cat': expected finite values, got nan"


def test_headers_that_do_not_add_up_are_a_misfit() -> None:
    packed = uplink()
    text = open_exchange().misfit(packed._replace(buffer=bytes(packed.buffer)[:-1]), DIMS, {}, anything)
    assert text == "exchange 'prototypes': payload: expected 36 bytes of arrays, got 35"


def test_the_evaluation_takes_empty_uplinks_only() -> None:
    evaluation = open_exchange(TWO.exchange(len(TWO.exchanges)))
    assert evaluation.misfit(pack(EMPTY), {}, {}, anything) is None
    expected = "exchange 'evaluation': expected fields [], got ['classes', 'counts', 'prototypes']"
    assert evaluation.misfit(uplink(), {}, {}, anything) == expected


def never_loaded(client: str) -> bytes:
    raise AssertionError(f"{client} was loaded")


def test_contributions_come_in_client_id_order_with_their_weights() -> None:
    exchange = open_exchange()
    packed = {client: uplink(counts=[number, 1]) for number, client in enumerate(("b10", "b2", "a"))}
    for number, (client, content) in enumerate(packed.items()):
        exchange.accept(client, 10 * number, content)
    expected = [("a", 20, packed["a"]), ("b10", 0, packed["b10"]), ("b2", 10, packed["b2"])]
    assert list(exchange.contributions(never_loaded)) == expected


def test_a_spilled_update_leaves_memory_and_is_loaded_when_its_turn_comes() -> None:
    exchange = open_exchange()
    packed = uplink()
    stored = bytes(packed.buffer)
    for client in "cab":
        exchange.accept(client, 5, packed)
    exchange.spill("b")
    assert exchange.accepted["b"].packed.buffer == b""
    loaded: list[str] = []

    def load(client: str) -> bytes:
        loaded.append(client)
        return stored

    found = iter(exchange.contributions(load))
    assert next(found) == ("a", 5, packed)
    assert loaded == []
    assert next(found) == ("b", 5, packed._replace(buffer=stored))
    assert [client for client, _, _ in found] == ["c"]
    assert loaded == ["b"]
    assert exchange.accepted["b"].packed.buffer == b""


def test_an_update_from_before_a_restart_may_lie_in_a_file() -> None:
    exchange = open_exchange()
    packed = uplink()
    exchange.restore("b", 7, packed, spilled=False)
    exchange.restore("a", 5, packed._replace(buffer=b""), spilled=True)
    found = list(exchange.contributions(lambda client: bytes(packed.buffer)))
    assert found == [("a", 5, packed), ("b", 7, packed)]


def test_what_is_told_is_short_whatever_it_quotes() -> None:
    packed = pack(Payload({f"{number:0200d}": Tensor("f32", np.ones(1)) for number in range(1000)}))
    text = open_exchange().misfit(packed, DIMS, {}, anything)
    assert text is not None
    assert len(text) == MAX_TOLD


LIMIT = 4 << 20
"""A message limit, in bytes."""


@pytest.mark.parametrize("name", ["prototypes", "counts", "classes", "anything"])
@pytest.mark.parametrize("codec", ["f32", "f16", "bf16", "i8", "u32", "u16", "u8"])
def test_refusing_the_largest_update_takes_less_memory_than_twice_the_largest_message(codec: str, name: str) -> None:
    entry_bytes = {"f32": 4, "u32": 4, "f16": 2, "bf16": 2, "u16": 2}.get(codec, 1)
    content = np.zeros((LIMIT // entry_bytes // 1024 - 64, 1024), np.uint16 if codec == "u16" else np.uint8)
    tensors = {**unpack(uplink()).tensors, name: Tensor(codec, content)}
    frames = encode(Update(7, 1, 0), pack(Payload(tensors)), LIMIT)
    tracemalloc.start()
    try:
        _, packed = decode(frames, max_bytes=LIMIT)
        assert packed is not None
        text = open_exchange().misfit(packed, DIMS, {}, anything)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert text is not None
    assert peak_bytes < 2 * LIMIT


def test_what_a_records_own_check_says_is_told_in_one_line() -> None:
    def check(record: Record) -> None:
        raise RecordError("expected less, got [[1]\n [2]]")

    told = "exchange 'prototypes': expected less, got [[1] [2]]"
    assert open_exchange().misfit(uplink(), DIMS, {}, check) == told
