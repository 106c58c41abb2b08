"""The header frame: what it may hold, its limits, and the same limits on both sides."""

import datetime

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire import header
from wire.errors import DecodeError, EncodeError
from wire.header import pack_header, unpack_header
from wire.limits import MAX_DEPTH, MAX_HEADER_BYTES, MAX_HEADER_ITEMS, MAX_STRING_BYTES

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | TEXTS
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(TEXTS | st.integers(-(2**63), 2**63), inner, max_size=20)
    ),
    max_leaves=30,
).filter(lambda value: depth(value) <= MAX_DEPTH)


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max((depth(inner) for inner in value.values()), default=0)
    return 1 + max((depth(inner) for inner in value), default=0) if isinstance(value, list) else 0


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(VALUES)
def test_every_plain_value_round_trips(value: object) -> None:
    assert unpack_header(pack_header(value, "value")) == value


@given(VALUES, st.integers(0, 400))
def test_every_shortened_header_is_refused(value: object, cut: int) -> None:
    header = pack_header(value, "value")
    if cut < len(header):
        with pytest.raises(DecodeError):
            unpack_header(header[:cut])


@pytest.mark.parametrize("length", [0, 1, 15, 16, 31, 32, 255, 256, 65535])
def test_every_length_form_of_texts_lists_and_maps_round_trips(length: int) -> None:
    assert unpack_header(pack_header("x" * length, "value")) == "x" * length
    assert unpack_header(pack_header([1] * length, "value")) == [1] * length
    numbers = dict.fromkeys(range(min(length, MAX_HEADER_ITEMS // 2 - 1)))
    assert unpack_header(pack_header(numbers, "value")) == numbers


@pytest.mark.parametrize(
    "header",
    [
        "dd00000002c0c0",
        "df00000001a161c0",
        "db0000000161",
        "da000161",
        "d90161",
        "dc0001c0",
        "de0001a161c0",
        "d3" + "0" * 16,
    ],
)
def test_longer_forms_than_needed_are_accepted(header: str) -> None:
    assert unpack_header(bytes.fromhex(header)) == msgpack.unpackb(bytes.fromhex(header))


def test_numpy_scalars_become_python_numbers() -> None:
    value = {"int": np.int64(-3), "single": np.float32(0.5), "double": np.float64(0.1), "truth": np.bool_(True)}
    back = unpack_header(pack_header(value, "value"))
    assert back == {"int": -3, "single": 0.5, "double": 0.1, "truth": True}
    assert [type(item) for item in back.values()] == [int, float, float, bool]


@pytest.mark.parametrize(
    "value",
    [b"x", bytearray(b"x"), np.zeros(2), object(), 2**64, -(2**63) - 1, "\ud800", 1j],
)
def test_what_no_header_holds_is_refused_before_sending(value: object) -> None:
    with pytest.raises(EncodeError, match="Hello: "):
        pack_header([1, {"key": value}], "Hello")


def test_an_endless_value_is_refused_before_sending() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(EncodeError, match="Hello: "):
        pack_header(value, "Hello")


@pytest.mark.parametrize("kind", ["bytes", "ext", "timestamp", "empty ext"])
def test_binary_and_extension_types_are_refused(kind: str) -> None:
    value = {
        "bytes": b"x",
        "ext": msgpack.ExtType(5, b"x"),
        "timestamp": datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc),
        "empty ext": msgpack.ExtType(5, b""),
    }[kind]
    with pytest.raises(DecodeError, match="is not used"):
        unpack_header(msgpack.packb([value], datetime=True))


def test_the_reserved_byte_is_refused() -> None:
    with pytest.raises(DecodeError, match="0xc1 is not used"):
        unpack_header(b"\xc1")


@pytest.mark.parametrize(
    "header", ["82a16101a16102", "82010101c0", "81c0c0", "81c3c0", "8190c0", "81cb000000000000000001"]
)
def test_repeated_keys_and_keys_of_other_types_are_refused(header: str) -> None:
    with pytest.raises(DecodeError, match="key"):
        unpack_header(bytes.fromhex(header))


def test_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(DecodeError, match="utf-8"):
        unpack_header(b"\xa2\xff\xfe")


def test_the_depth_limit_holds_on_both_sides() -> None:
    assert unpack_header(pack_header(nested(MAX_DEPTH), "value")) == nested(MAX_DEPTH)
    too_deep = nested(MAX_DEPTH + 1)
    with pytest.raises(EncodeError, match=f"at most {MAX_DEPTH} lists and maps"):
        pack_header(too_deep, "value")
    with pytest.raises(DecodeError, match=f"at most {MAX_DEPTH} lists and maps"):
        unpack_header(msgpack.packb(too_deep))


def test_the_item_limit_holds_on_both_sides() -> None:
    fitting = [None] * (MAX_HEADER_ITEMS - 1)
    assert unpack_header(pack_header(fitting, "value")) == fitting
    full_map: dict[int, list[object]] = {number: [] for number in range(MAX_HEADER_ITEMS // 2)}
    for too_many in ([*fitting, None], full_map):
        with pytest.raises(EncodeError, match=f"at most {MAX_HEADER_ITEMS} items"):
            pack_header(too_many, "value")
        with pytest.raises(DecodeError, match=f"at most {MAX_HEADER_ITEMS} items"):
            unpack_header(msgpack.packb(too_many))


def test_the_text_limit_holds_on_both_sides() -> None:
    fitting = "x" * MAX_STRING_BYTES
    assert unpack_header(pack_header(fitting, "value")) == fitting
    with pytest.raises(EncodeError, match=f"at most {MAX_STRING_BYTES} bytes"):
        pack_header(fitting + "x", "value")
    with pytest.raises(DecodeError, match=f"at most {MAX_STRING_BYTES} bytes"):
        unpack_header(msgpack.packb(fitting + "x"))


def test_the_byte_limit_holds_on_both_sides() -> None:
    fitting = ["x" * 65_000] * 4
    assert unpack_header(pack_header(fitting, "value")) == fitting
    too_large = [*fitting, "x" * (MAX_HEADER_BYTES - 4 * 65_000)]
    with pytest.raises(EncodeError, match=f"at most {MAX_HEADER_BYTES} bytes"):
        pack_header(too_large, "value")
    with pytest.raises(DecodeError, match=f"at most {MAX_HEADER_BYTES} bytes"):
        unpack_header(msgpack.packb(too_large))


def test_a_header_may_be_a_view() -> None:
    assert unpack_header(memoryview(b"\x91\x07")) == [7]


ANY_ITEM = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=4) | st.binary(max_size=2),
    lambda items: st.lists(items, max_size=3) | st.dictionaries(st.integers(0, 200), items, max_size=2),
)


@given(st.binary(max_size=64) | ANY_ITEM.map(msgpack.packb))
def test_a_short_header_is_taken_only_if_the_walk_passes_it(frame: bytes) -> None:
    try:
        unpack_header(frame)
    except DecodeError:
        return
    header._check_structure(frame)


def test_deep_and_strange_headers_are_never_simple() -> None:
    for frame in (b"\x91" * 17 + b"\xc0", b"\xc1", b"\xc4\x00", b"\xd4\x00\x00"):
        assert not header._is_simple(frame)
    assert header._is_simple(b"\x91" * 16 + b"\xc0")


def test_numbers_that_look_like_other_types_cost_no_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    content = [5, [0xC1C4C7D4, 0x9191919191919191], [["prototypes", 3, [10, 50]]] * 5, {"scale": 0.5}]
    monkeypatch.setattr(header, "_check_structure", lambda frame: pytest.fail("was walked"))
    frame = pack_header(content, "value")
    assert not header._is_simple(frame)
    assert unpack_header(frame) == content
