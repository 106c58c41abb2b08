"""Messages as frames: layout, limits, evolution, and what each side refuses."""

from collections.abc import Callable
from typing import Any, ClassVar

import msgpack
import numpy as np
import pytest

from wire.encoding import ArrayHeader, Packed, decode, encode, encoded_bytes, pack, unpack
from wire.errors import DecodeError, EncodeError, UnknownMessageError
from wire.limits import MAX_ARRAYS, MAX_ENTRIES, MAX_NAME_BYTES, MAX_RANK
from wire.messages import Ack, Evaluation, Grant, Hello, Message, Ping, Pong, Ready, Task, Update, Welcome
from wire.payload import EMPTY, Payload, Sizes, Tensor

MIXED = Payload(
    {
        "bytes": Tensor("u8", np.array([1, 2, 3], np.uint8)),
        "values": Tensor("f32", np.arange(6, dtype=np.float32).reshape(2, 3)),
        "half": Tensor("f16", np.array([0.5])),
        "rows": Tensor("i8", np.array([[0.0, 255.0], [7.0, 7.0]])),
        "state": Tensor("f64", np.array(0.1)),
        "counts": Tensor("u32", np.array([4, 5])),
    },
    {"round": 3, "stage": "tune", "scale": 0.5, "first": True},
)


def header_of(message: Message, packed: Packed | None = None) -> Any:
    return msgpack.unpackb(encode(message, packed)[0], strict_map_key=False)


def with_header(edit: Callable[[Any], None], message: Message, packed: Packed | None = None) -> list[bytes]:
    """Return the frames of a message after `edit` changed the plain header in place."""
    frames = encode(message, packed)
    header = msgpack.unpackb(frames[0], strict_map_key=False)
    edit(header)
    return [msgpack.packb(header), *(bytes(frame) for frame in frames[1:])]


def test_a_message_without_a_payload_is_one_frame() -> None:
    frames = encode(Ack(7, 3, 0))
    assert [bytes(frame) for frame in frames] == [msgpack.packb([10, [7, 3, 0]])]
    assert decode(frames) == (Ack(7, 3, 0), None)


def test_a_message_with_an_empty_payload_is_two_frames() -> None:
    frames = encode(Task(7, 3, 0, 2, 2), pack(EMPTY))
    assert [bytes(frame) for frame in frames] == [msgpack.packb([5, [7, 3, 0, 2, 2], [], {}]), b""]
    message, packed = decode(frames)
    assert message == Task(7, 3, 0, 2, 2)
    assert packed is not None
    assert unpack(packed) == EMPTY
    assert packed.sizes == Sizes(0, 0)


def test_arrays_travel_end_to_end_the_largest_items_first_and_otherwise_in_their_order() -> None:
    packed = pack(MIXED)
    assert packed.headers == [
        ("state", 1, ()), ("values", 3, (2, 3)), ("counts", 4, (2,)), ("half", 5, (1,)), ("bytes", 8, (3,)),
        ("rows", 9, (2, 2)),
    ]  # fmt: skip
    rows = np.array([0, 1], "<f4").tobytes() + b"\x00\xff" + np.array([7, 0], "<f4").tobytes() + b"\x00\x00"
    parts = [np.float64(0.1), np.arange(6, dtype="<f4"), np.array([4, 5], "<u4"), np.array([0.5], "<f2")]
    assert bytes(packed.buffer) == b"".join(part.tobytes() for part in parts) + b"\x01\x02\x03" + rows


def test_every_array_starts_at_a_multiple_of_its_item_size() -> None:
    packed, start = pack(MIXED), 0
    for header in packed.headers:
        assert start % header.item_bytes == 0
        start += header.size_bytes
    assert start == len(packed.buffer)


def test_a_payload_comes_back_with_codecs_values_and_scalars() -> None:
    _, packed = decode(encode(Task(7, 3, 0, 2, 2), pack(MIXED)))
    assert packed is not None
    payload = unpack(packed)
    assert payload.scalars == MIXED.scalars
    assert packed.sizes == payload.sizes == MIXED.sizes
    for name, tensor in MIXED.tensors.items():
        assert payload.tensors[name].codec == tensor.codec
        assert np.array_equal(payload.tensors[name].data, tensor.data)


def test_large_arrays_are_not_copied() -> None:
    array = np.arange(1000, dtype=np.float32)
    packed = pack(Payload({"a": Tensor("f32", array)}))
    assert np.shares_memory(np.frombuffer(packed.buffer, np.uint8), array)
    frames = [bytearray(frame) for frame in encode(Task(7, 3, 0, 2, 2), pack(MIXED))]
    _, packed_again = decode([memoryview(frame) for frame in frames])
    assert packed_again is not None
    assert np.shares_memory(unpack(packed_again).arrays["values"], np.frombuffer(frames[1], np.uint8))


def test_sizes_count_elements_in_value_arrays_and_bytes_in_all() -> None:
    assert pack(MIXED).sizes == Sizes(elements=1 + 6 + 1 + 4, payload_bytes=8 + 24 + 2 + 8 + 3 + 20)


def test_bytes_of_frames() -> None:
    frames = [bytes(255), bytes(256), b""]
    assert encoded_bytes(frames) == 511


def test_an_uplink_of_ten_prototypes_costs_at_most_80_bytes_more_than_its_payload() -> None:
    payload = Payload(
        {
            "prototypes": Tensor("f32", np.random.default_rng(0).normal(size=(10, 50)).astype(np.float32)),
            "counts": Tensor("u32", np.full(10, 34)),
            "classes": Tensor("u16", np.arange(10)),
        }
    )
    # Two rules on the model of this round, and the one that needed the new global state on that of the last.
    evaluations = [Evaluation(299, 900, {1: 804}), Evaluation(300, 900, {0: 857, 2: 839})]
    packed = pack(payload)
    assert packed.sizes == Sizes(elements=500, payload_bytes=2060)
    frames = encode(Update(0xFFFF, 300, 0, evaluations), packed)
    assert encoded_bytes(frames) - 2060 <= 80


def test_numpy_scalars_become_python_numbers() -> None:
    evaluation = Evaluation(np.int32(1), 2, {np.int64(1): np.uint8(2)})  # type: ignore[arg-type, dict-item]
    packed = pack(Payload(scalars={"scale": np.float32(0.5), "step": np.int64(3), "first": np.bool_(False)}))  # type: ignore[dict-item]
    message, came = decode(encode(Update(7, 1, 0, [evaluation]), packed))
    assert message == Update(7, 1, 0, [Evaluation(1, 2, {1: 2})])
    assert came is not None
    assert came.scalars == packed.scalars == {"scale": 0.5, "step": 3, "first": False}
    assert [type(value) for value in packed.scalars.values()] == [float, int, bool]


def test_a_welcome_with_a_thousand_class_names_fits() -> None:
    names = [f"a class with quite a long name, number {number}" for number in range(1000)]
    message = Welcome(7, "demo", 10.0, 1000, {"classes": names, "data": {"classes": names}})
    assert decode(encode(message)) == (message, None)


# Before sending


def test_a_payload_too_many_or_too_few_is_refused_before_sending() -> None:
    with pytest.raises(EncodeError, match="Task: expected a payload"):
        encode(Task(7, 3, 0, 2, 2))
    with pytest.raises(EncodeError, match="Pong: expected no payload"):
        encode(Pong(), pack(EMPTY))


def test_a_message_over_the_limit_is_refused_before_sending_and_on_arrival() -> None:
    packed = pack(Payload({"a": Tensor("u8", np.zeros(1000, np.uint8))}))
    frames = encode(Task(7, 3, 0, 2, 2), packed)
    size = encoded_bytes(frames)
    assert encode(Task(7, 3, 0, 2, 2), packed, max_bytes=size) == frames
    decode(frames, max_bytes=size)
    text = rf"{size} bytes are more than \[transport\] max_message_bytes = {size - 1}"
    with pytest.raises(EncodeError, match=f"Task: {text}"):
        encode(Task(7, 3, 0, 2, 2), packed, max_bytes=size - 1)
    with pytest.raises(DecodeError, match=text):
        decode(frames, max_bytes=size - 1)


def test_a_hundred_thousand_classes_are_refused_before_sending_where_they_do_not_fit() -> None:
    with pytest.raises(EncodeError, match="Ready: header: expected at most"):
        encode(Ready(7, 1, 1, [1] * 100_000, 50, 1, 0))
    packed = pack(Payload({"prototypes": Tensor("f32", np.ones((100_000, 4), np.float32))}))
    assert decode(encode(Task(7, 1, 0, 0, 0), packed))[1] == packed


@pytest.mark.parametrize("value", [None, [1], b"x", np.zeros(2)])
def test_a_scalar_that_is_none_is_refused_before_sending(value: Any) -> None:
    with pytest.raises(EncodeError, match="scalar 'step': expected a number, text or truth value"):
        pack(Payload(scalars={"step": value}))


def test_payload_limits_are_checked_before_sending() -> None:
    one = Tensor("u8", np.zeros(1, np.uint8))
    with pytest.raises(EncodeError, match=f"at most {MAX_ARRAYS} arrays"):
        pack(Payload({str(number): one for number in range(MAX_ARRAYS + 1)}))
    with pytest.raises(EncodeError, match=f"at most {MAX_NAME_BYTES} bytes"):
        pack(Payload({"é" * (MAX_NAME_BYTES // 2 + 1): one}))
    with pytest.raises(EncodeError, match=f"at most {MAX_RANK} dimensions"):
        pack(Payload({"a": Tensor("u8", np.zeros((1,) * (MAX_RANK + 1), np.uint8))}))
    with pytest.raises(EncodeError, match="two arrays or scalars"):
        pack(Payload({"a": one}, {"a": 1}))


def test_the_largest_payload_by_number_of_arrays_and_rank_round_trips() -> None:
    one = Tensor("u8", np.zeros((1,) * MAX_RANK, np.uint8))
    packed = pack(Payload({f"layer.{number}.weight": one for number in range(MAX_ARRAYS)}))
    assert decode(encode(Task(7, 1, 0, 0, 0), packed))[1] == packed


# Evolution


def test_extra_trailing_fields_are_ignored() -> None:
    frames = with_header(lambda header: header[1].extend(["new", {"x": 1}]), Ack(7, 3, 0))
    assert decode(frames) == (Ack(7, 3, 0), None)


def test_extra_trailing_fields_inside_a_record_are_ignored() -> None:
    message = Update(7, 1, 0, [Evaluation(1, 2, {0: 1})])

    def edit(header: Any) -> None:
        header[1][3][0].append("new")

    assert decode(with_header(edit, message, pack(EMPTY)))[0] == message


def test_missing_trailing_fields_take_their_defaults() -> None:
    frames = with_header(lambda header: header[1].clear(), Ping(1, 2))
    assert decode(frames) == (Ping(), None)


def test_a_message_of_an_unknown_kind_is_told_apart() -> None:
    for frames in (
        [msgpack.packb([63, []])],
        [msgpack.packb([63, ["anything", {"x": [1]}], [], {}]), b"xyz"],
        [msgpack.packb([-1, []])],
    ):
        with pytest.raises(UnknownMessageError, match="no message has the tag"):
            decode(frames)


class Step(Message, frozen=True, array_like=True):
    tag: ClassVar[int] = 64
    carries_payload: ClassVar[bool] = True
    number: int


def test_another_family_of_messages_has_its_own_table() -> None:
    frames = encode(Step(5), pack(MIXED))
    assert decode(frames, {64: Step})[0] == Step(5)
    with pytest.raises(UnknownMessageError):
        decode(frames)
    with pytest.raises(UnknownMessageError):
        decode(encode(Pong()), {64: Step})


# On arrival


@pytest.mark.parametrize("num_frames", [0, 3, 5])
def test_another_number_of_frames_is_refused(num_frames: int) -> None:
    with pytest.raises(DecodeError, match=f"one or two frames, got {num_frames}"):
        decode([b"\x90"] * num_frames)


def test_a_payload_where_none_belongs_and_none_where_one_does_are_refused() -> None:
    plain, carrying = encode(Ack(7, 3, 0)), encode(Task(7, 3, 0, 2, 2), pack(MIXED))
    short = [msgpack.packb(header_of(Task(7, 3, 0, 2, 2), pack(EMPTY))[:2])]
    long = [msgpack.packb([*header_of(Ack(7, 3, 0)), [], {}])]
    for frames in ([*plain, b""], carrying[:1], short, [*short, b""], long, [*long, b""]):
        with pytest.raises(DecodeError, match=r"(Task|Ack): expected [12] frames"):
            decode(frames)


@pytest.mark.parametrize(
    "header",
    [None, 7, "x", {}, [], [10], [10, [], []], [10, [], [], {}, 1], [True, []], ["10", []], [10.0, []], [None, []],
     [[10], []], [{}, []], [10, {}], [10, None], [10, "abc"]],
)  # fmt: skip
def test_a_header_of_another_form_is_refused(header: Any) -> None:
    with pytest.raises(DecodeError, match="header: expected"):
        decode([msgpack.packb(header)])


@pytest.mark.parametrize(
    "fields",
    [[], [7, 3], [7, 3, "0"], [7, 3, None], [7, 3, True], [7, 3, 0.5], [7, 3, [0]], [[7], 3, 0]],
)
def test_missing_fields_and_fields_of_another_type_are_refused_by_name(fields: Any) -> None:
    with pytest.raises(DecodeError, match="Ack: "):
        decode([msgpack.packb([10, fields])])


def test_the_fields_of_another_message_are_refused() -> None:
    with pytest.raises(DecodeError, match="Hello: "):
        decode(with_header(lambda header: header.__setitem__(0, Hello.tag), Grant(7, 3, 1)))


@pytest.mark.parametrize(
    "arrays",
    [None, {}, [1], [[]], [["a", 8]], [["a", 8, [3], 1]], [[1, 8, [3]]], [["a", "u8", [3]]], [["a", 8, 3]],
     [["a", 8, ["3"]]], [["a", 8, [3.0]]], [["a", 8, [True]]], [["a", True, [3]]], [["a", 8, [3, None]]]],
)  # fmt: skip
def test_array_headers_of_another_form_are_refused(arrays: Any) -> None:
    with pytest.raises(DecodeError, match=r"Task: |payload: "):
        decode([msgpack.packb([5, [7, 3, 0, 2, 2], arrays, {}]), b"xyz"])


@pytest.mark.parametrize("scalars", [None, [], {"a": None}, {"a": [1]}, {"a": {}}, {1: 1}])
def test_scalars_of_another_form_are_refused(scalars: Any) -> None:
    with pytest.raises(DecodeError, match="Task: "):
        decode([msgpack.packb([5, [7, 3, 0, 2, 2], [], scalars]), b""])


WRONG_PAYLOADS: dict[str, tuple[list[Any], dict[str, Any], bytes]] = {
    "buffer too short": ([["a", 8, [3]]], {}, b"xy"),
    "buffer too long": ([["a", 8, [3]]], {}, b"wxyz"),
    "buffer without arrays": ([], {}, b"x"),
    "unknown codec": ([["a", 99, [3]]], {}, b"xyz"),
    "codec 0": ([["a", 0, [3]]], {}, b"xyz"),
    "negative dimension": ([["a", 8, [-3]]], {}, b"xyz"),
    "two negative dimensions": ([["a", 8, [-3, -1]]], {}, b"xyz"),
    "overflowing dimensions": ([["a", 8, [2**32, 2**32]]], {}, b""),
    "empty but overflowing dimensions": ([["a", 8, [0, 2**62, 2**62]]], {}, b""),
    "empty but large dimensions": ([["a", 8, [0, MAX_ENTRIES + 1]]], {}, b""),
    "rank": ([["a", 8, [1] * (MAX_RANK + 1)]], {}, b"x"),
    "array twice": ([["a", 8, [1]], ["a", 8, [1]]], {}, b"xy"),
    "array and scalar": ([["a", 8, [1]]], {"a": 1}, b"x"),
    "long name": ([["a" * (MAX_NAME_BYTES + 1), 8, [1]]], {}, b"x"),
    "long scalar name": ([], {"é" * (MAX_NAME_BYTES // 2 + 1): 1}, b""),
    "too many arrays": ([[str(number), 8, [0]] for number in range(MAX_ARRAYS + 1)], {}, b""),
    "smaller items first": ([["a", 8, [1]], ["b", 7, [1]]], {}, b"xyz"),
}


@pytest.mark.parametrize("case", WRONG_PAYLOADS)
def test_payloads_that_do_not_add_up_are_passed_on_but_never_unpacked(case: str) -> None:
    arrays, scalars, buffer = WRONG_PAYLOADS[case]
    message, packed = decode([msgpack.packb([5, [7, 3, 0, 2, 2], arrays, scalars]), buffer])
    assert message == Task(7, 3, 0, 2, 2)
    assert packed is not None
    with pytest.raises(DecodeError, match=r"payload: |array "):
        unpack(packed)
    headers = [ArrayHeader(name, codec, tuple(shape)) for name, codec, shape in arrays]
    with pytest.raises(DecodeError, match=r"payload: |array "):
        unpack(Packed(headers, scalars, buffer))


def test_an_empty_array_with_a_large_dimension_is_an_array() -> None:
    _, packed = decode([msgpack.packb([5, [7, 3, 0, 2, 2], [["a", 8, [0, MAX_ENTRIES]]], {}]), b""])
    assert packed is not None
    assert unpack(packed).arrays["a"].shape == (0, MAX_ENTRIES)
