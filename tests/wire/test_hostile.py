"""Hostile and awkward inputs that other systems met in the field, as values with the outcome expected here."""

import tracemalloc

import msgpack
import numpy as np
import pytest

from wire.encoding import decode, encode, pack, unpack
from wire.errors import DecodeError, EncodeError
from wire.header import unpack_header
from wire.limits import MAX_HEADER_BYTES
from wire.messages import Ready, Task, Update
from wire.payload import EMPTY, Payload, Tensor

MIB = 1024 * 1024


def refuse(frames: list[bytes]) -> int:
    """Assert that the frames are refused; return the peak bytes of Python memory that it took."""
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode(frames)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


LYING_HEADERS = {
    "array32 of 4 billion": "ddff000000",
    "map inside junk": "9ffd74f7dd74fffdbd",
    "bin32 of 4 GiB": "c6ffffffff",
    "map32 of 4 billion": "dfffffffff",
    "str32 of 4 GiB": "dbffffffff",
    "ext32 of 4 GiB": "c9ffffffff01",
    "old ZMTP greeting": "0100060068656c6c6f",
}


@pytest.mark.parametrize("header", LYING_HEADERS.values(), ids=LYING_HEADERS.keys())
@pytest.mark.parametrize("where", ["alone", "as fields", "with a buffer"])
def test_a_header_that_announces_more_than_it_holds_is_refused_at_once(header: str, where: str) -> None:
    content = bytes.fromhex(header)
    frames = {"alone": [content], "as fields": [b"\x92\x0a" + content], "with a buffer": [content, bytes(100)]}[where]
    assert refuse(frames) < MIB


NESTS = {
    "array16 headers, 72 KB": b"\xdc\xff\xff" * 24_000,
    "array16 of one, 72 KB": b"\xdc\x00\x01" * 24_000,
    "array32 headers": b"\xdd\x00\x00\xff\xff" * 1_000,
    "map16 headers": b"\xde\xff\xff" * 1_000,
    "10,000 lists": b"\x91" * 10_000,
    "1,023 lists": b"\x91" * 1_023,
    "1,023 lists, complete": b"\x91" * 1_022 + b"\x90",
    "17 lists, complete": b"\x91" * 16 + b"\x90",
    "maps": b"\x81\x00" * 10_000,
    "as many as fit": b"\x91" * MAX_HEADER_BYTES,
}


@pytest.mark.parametrize("header", NESTS.values(), ids=NESTS.keys())
def test_lists_inside_each_other_are_refused_without_building_them(header: bytes) -> None:
    with pytest.raises(DecodeError, match=r"lists and maps inside each other|items"):
        decode([header])
    assert refuse([header]) < len(header) + 64 * 1024


FULL_HEADERS = {
    "empty maps": b"\xdc\xff\xff" + b"\x80" * 65_535,
    "empty lists": b"\xdc\xff\xff" + b"\x90" * 65_535,
    "one map": b"\xde\x7f\xff" + b"".join(b"\xcd" + key.to_bytes(2, "big") + b"\xc0" for key in range(0x7FFF)),
    "numbers": b"\xdc\xff\xff" + b"\x7f" * 65_535,
    "texts": b"\xdc\xff\xff" + b"\xa2ab" * 65_535,
}


@pytest.mark.parametrize("header", FULL_HEADERS.values(), ids=FULL_HEADERS.keys())
def test_the_fullest_headers_cost_bounded_memory(header: bytes) -> None:
    assert refuse([header]) < 8 * MIB


def test_numpy_metric_values_are_converted_by_the_sender() -> None:
    frames = encode(
        Ready(np.int64(7), np.int32(30), 10, [np.int64(3)], 50, 1, 0)  # type: ignore[arg-type, list-item]
    )
    assert decode(frames)[0] == Ready(7, 30, 10, [3], 50, 1, 0)
    packed = pack(Payload(scalars={"loss": np.float32(0.5), "done": np.bool_(True)}))  # type: ignore[dict-item]
    came = decode(encode(Task(7, 1, 0, 0, 0), packed))[1]
    assert came is not None
    assert unpack(came).scalars == {"loss": 0.5, "done": True}


def test_integer_map_keys_work() -> None:
    assert unpack_header(msgpack.packb({0: "a", 1: "b"})) == {0: "a", 1: "b"}


@pytest.mark.parametrize("extra", [b"\xc0", b"\x00", b"\x90" * 9])
def test_trailing_bytes_are_refused(extra: bytes) -> None:
    header = bytes(encode(Task(7, 1, 0, 0, 0), pack(EMPTY))[0])
    with pytest.raises(DecodeError, match=f"expected {len(header)} bytes, got {len(header) + len(extra)}"):
        decode([header + extra, b""])


def test_duplicate_keys_are_refused() -> None:
    scalars = b"\x82\xa1a\x01\xa1a\x02"
    with pytest.raises(DecodeError, match="a key stands twice"):
        decode([b"\x94\x05\x95\x07\x01\x00\x00\x00\x90" + scalars, b""])
    counts = b"\x82\x00\x05\x00\x06"
    with pytest.raises(DecodeError, match="a key stands twice"):
        decode([b"\x94\x09\x94\x07\x01\x00\x94\x01\x02\x03\x91\x93\x01\x02" + counts + b"\x90\x80", b""])


def uplink(codec: str, rows: np.ndarray) -> np.ndarray:
    packed = pack(Payload({"prototypes": Tensor(codec, rows)}))
    came = decode(encode(Update(7, 1, 0), packed))[1]
    assert came is not None
    return unpack(came).arrays["prototypes"]


REFUSED_ROWS = {"NaN row": (np.nan, "f32"), "Inf row": (-np.inf, "f32"), "1e5 in f16": (1e5, "f16")}


@pytest.mark.parametrize("case", REFUSED_ROWS)
def test_rows_that_a_codec_cannot_hold_are_refused_before_sending(case: str) -> None:
    value, codec = REFUSED_ROWS[case]
    rows = np.zeros((3, 4), np.float32)
    rows[1] = value
    with pytest.raises(EncodeError, match=rf"array 'prototypes': codec {codec} cannot hold \S+ at \[1, 0\]"):
        uplink(codec, rows)


@pytest.mark.parametrize("codec", ["f32", "f16", "bf16"])
def test_flat_rows_zero_rows_and_denormals_survive_exactly(codec: str) -> None:
    smallest = {"f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}[codec]
    rows = np.array([[0.5] * 3, [0.0] * 3, [smallest, -smallest, 0.0]], np.float32)
    assert uplink(codec, rows).tobytes() == rows.tobytes()


@pytest.mark.parametrize("codec", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("num_classes", [0, 100_000])
def test_no_classes_and_a_hundred_thousand_classes_survive(codec: str, num_classes: int) -> None:
    rows = np.ones((num_classes, 5), np.float32)
    assert np.array_equal(uplink(codec, rows), rows)
