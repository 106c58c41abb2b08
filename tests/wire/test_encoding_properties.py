"""Properties of the encoding: every message round-trips, and any bytes are a message or a DecodeError."""

import typing
from typing import Any, TypeAlias

import msgpack
import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wire.encoding import decode, encode, encoded_bytes, pack, unpack
from wire.errors import DecodeError
from wire.framing import framed_bytes
from wire.messages import NETWORK, Evaluation, Message, Update, Vitals
from wire.payload import Payload, Tensor
from wire.tensors import CODECS

Frames: TypeAlias = list[bytes]

KINDS = sorted(NETWORK.values(), key=lambda kind: kind.tag)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
INTEGERS = st.integers(-(2**63), 2**64 - 1)
PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
RECORDS: list[type[msgspec.Struct]] = [*KINDS, Evaluation, Vitals]
DTYPES = {
    "f64": "f8",
    "i64": "i8",
    "f32": "f4",
    "u32": "u4",
    "f16": "f2",
    "bf16": "f2",
    "u16": "u2",
    "u8": "u1",
    "i8": "f2",
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a field's type."""
    plain = {int: INTEGERS, str: TEXTS, bool: st.booleans(), float: st.floats(allow_nan=False), Any: PLAIN}
    if hint in plain:
        return plain[hint]
    if hint in RECORDS:
        return records(hint)
    inner = [values_of(argument) for argument in typing.get_args(hint)]
    if typing.get_origin(hint) is list:
        return st.lists(inner[0], max_size=5)
    if typing.get_origin(hint) is dict:
        return st.dictionaries(inner[0], inner[1], max_size=5)
    assert typing.get_origin(hint) is tuple
    return st.tuples(*inner)


def records(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    return st.builds(kind, *(values_of(hints[field.name]) for field in msgspec.structs.fields(kind)))


@st.composite
def tensors(draw: st.DrawFn, codecs: tuple[str, ...]) -> Tensor:
    codec = draw(st.sampled_from(codecs))
    dtype = np.dtype(DTYPES[codec])
    any_bits = None if dtype.kind != "f" else codec == "f64"
    elements = hnp.from_dtype(dtype, allow_nan=any_bits, allow_infinity=any_bits)
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    return Tensor(codec, draw(hnp.arrays(dtype, shape, elements=elements)))


SCALARS = st.booleans() | INTEGERS | st.floats(allow_nan=False) | TEXTS


@st.composite
def payloads(draw: st.DrawFn, codecs: tuple[str, ...] = tuple(sorted(CODECS))) -> Payload:
    arrays = draw(st.dictionaries(TEXTS, tensors(codecs), max_size=4))
    scalars = draw(st.dictionaries(TEXTS.filter(lambda name: name not in arrays), SCALARS, max_size=3))
    return Payload(arrays, scalars)


@st.composite
def valid_frames(draw: st.DrawFn) -> Frames:
    kind = draw(st.sampled_from(KINDS))
    packed = pack(draw(payloads())) if kind.carries_payload else None
    return [bytes(frame) for frame in encode(draw(records(kind)), packed)]


def same(left: np.ndarray, right: np.ndarray) -> bool:
    return left.shape == right.shape and left.dtype == right.dtype and left.tobytes() == right.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_every_message_round_trips(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(records(kind))
    packed = pack(data.draw(payloads())) if kind.carries_payload else None
    frames = encode(message, packed)
    came, came_packed = decode(frames)
    assert came == message
    assert type(came) is kind
    assert came_packed == packed
    assert framed_bytes(frames, is_encrypted=False) - encoded_bytes(frames) in (2, 9, 2 + 6, 9 + 6)


@given(payloads())
def test_every_payload_round_trips(payload: Payload) -> None:
    packed = pack(payload)
    back = unpack(packed)
    assert back.scalars == payload.scalars
    assert back.tensors.keys() == payload.tensors.keys()
    assert back.sizes == payload.sizes == packed.sizes
    for name, (codec, data) in payload.tensors.items():
        assert back.tensors[name].codec == codec
        if codec == "f16":
            data = data.astype(np.float32)
        if codec == "bf16":
            np.testing.assert_allclose(back.tensors[name].data, data, rtol=2**-8, atol=0, strict=False)
        elif codec == "i8":
            step = np.ptp(data.astype(np.float32), axis=-1, keepdims=True) / 255 if data.size else 0.0
            assert (np.abs(back.tensors[name].data - data.astype(np.float32)) <= 0.501 * step).all()
        else:
            assert same(back.tensors[name].data, data)


@given(payloads(tuple(sorted(CODECS.keys() - {"i8"}))))
def test_packing_what_was_unpacked_gives_the_same_bytes(payload: Payload) -> None:
    packed = pack(payload)
    assert pack(unpack(packed)) == packed


def decode_or_refuse(frames: Frames) -> None:
    """Decode and unpack; anything but a message or a DecodeError fails the test that calls this."""
    try:
        message, packed = decode(frames)
        assert NETWORK[message.tag] is type(message)
        if packed is not None:
            unpack(packed)
            assert packed.sizes.payload_bytes == len(frames[1])
    except DecodeError:
        pass


@given(st.lists(st.binary(max_size=200), max_size=4))
@example([])
@example([b""])
@example([b"", b""])
def test_any_bytes_are_a_message_or_refused(frames: Frames) -> None:
    decode_or_refuse(frames)


@given(st.data())
def test_changed_frames_are_a_message_or_refused(data: st.DataObject) -> None:
    frames = data.draw(valid_frames())
    which = data.draw(st.integers(0, len(frames) - 1))
    frame = bytearray(frames[which])
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(frame)))
        end = min(len(frame), start + data.draw(st.integers(0, 3)))
        frame[start:end] = data.draw(st.binary(max_size=3))
    frames[which] = bytes(frame)
    decode_or_refuse(frames)


@given(st.sampled_from(sorted(NETWORK)), st.lists(PLAIN, max_size=8), PLAIN | st.lists(PLAIN, max_size=3), PLAIN)
def test_plausible_headers_are_a_message_or_refused(tag: int, fields: Any, arrays: Any, scalars: Any) -> None:
    decode_or_refuse([msgpack.packb([tag, fields])])
    decode_or_refuse([msgpack.packb([tag, fields, arrays, scalars]), b"buffer"])


DIMENSIONS = st.integers(-2, 5) | st.sampled_from([2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**64 - 1, -(2**63)])
ARRAYS = st.lists(st.tuples(TEXTS, st.integers(-1, 10), st.lists(DIMENSIONS, max_size=10)), max_size=4)


@given(ARRAYS, st.dictionaries(TEXTS, SCALARS, max_size=3), st.data())
def test_plausible_array_headers_are_a_payload_or_refused(arrays: Any, scalars: Any, data: st.DataObject) -> None:
    header = msgpack.packb([9, [7, 1, 0, [1, 2, 3, []]], arrays, scalars])
    decode_or_refuse([header, data.draw(st.binary(max_size=40))])


@given(st.binary(min_size=8, max_size=8), st.sampled_from(sorted(CODECS.keys() - {"i8"})))
@example(b"\x01\x7c" * 4, "f16")
@example(b"\x81\x7f" * 4, "bf16")
def test_any_buffer_unpacks(buffer: bytes, codec: str) -> None:
    shape = [8 // CODECS[codec].dtype.itemsize]
    header = msgpack.packb([9, [7, 1, 0, []], [["a", CODECS[codec].number, shape]], {}])
    message, packed = decode([header, buffer])
    assert message == Update(7, 1, 0)
    assert packed is not None
    assert unpack(packed).arrays["a"].shape == tuple(shape)


def test_the_strategy_knows_every_type_of_a_field() -> None:
    for kind in RECORDS:
        records(kind).validate()
