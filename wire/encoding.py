"""Messages as frames: a header, and for a message that carries a payload one raw buffer with all its arrays.

The header is `[tag, fields]`, or `[tag, fields, arrays, scalars]` where a payload travels. The buffer holds the arrays
end to end, those with the largest items first, so that each is aligned to its item size without padding (an item of
`i8` is a byte: the singles of its rows may lie anywhere).

Packing is apart from encoding: the coordinator makes the payload of a downlink once and sends it to many, and stores an
uplink without ever decoding its arrays. `decode` checks the message, so a daemon passes a payload on without looking at
it; `unpack` checks all that the header says against the buffer; `Record.from_payload` checks the values against the
method's record.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from wire.errors import DecodeError, EncodeError, UnfitArrayError, UnknownMessageError, WireError
from wire.header import pack_header, unpack_header
from wire.limits import DEFAULT_MAX_MESSAGE_BYTES, MAX_ARRAYS, MAX_ENTRIES, MAX_NAME_BYTES, MAX_RANK
from wire.messages import NETWORK, Message
from wire.payload import CODEC_BYTES, ELEMENT_CODECS, Form, Payload, Scalar, Sizes, Tensor, array_bytes
from wire.tensors import CODEC_NAMES, CODECS, Buffer, decode_tensor, encode_tensor

Frames = Sequence[Buffer]
"""A message as it travels: header, buffer of a payload if it carries one, and the timing that an update may have."""


class ArrayHeader(NamedTuple):
    """What the header says of one array: its name, the number of its codec, its dimensions."""

    name: str
    codec: int
    shape: tuple[int, ...]

    @property
    def num_entries(self) -> int:
        """Entries of the array."""
        return math.prod(self.shape)

    @property
    def item_bytes(self) -> int:
        """Bytes of one entry, to multiples of which the array is aligned."""
        return _ITEM_BYTES[self.codec]

    @property
    def size_bytes(self) -> int:
        """Bytes of the array."""
        return array_bytes(CODEC_NAMES[self.codec], self.shape)


class Packed(NamedTuple):
    """A payload as it travels, arrays not yet decoded."""

    headers: list[ArrayHeader]
    scalars: dict[str, Scalar]
    buffer: Buffer

    @property
    def sizes(self) -> Sizes:
        """Elements and payload bytes, from the headers alone."""
        return Sizes(_arranged(self.headers).num_elements, len(self.buffer))

    @property
    def forms(self) -> tuple[Form, ...]:
        """The forms of all arrays; raises WireError if no payload has these headers."""
        return _arranged(self.headers).forms


EMPTY_PACKED = Packed([], {}, b"")
"""What `pack` makes of `payload.EMPTY`."""


class Place(NamedTuple):
    """An array and where it lies in the buffer."""

    name: str
    codec: str
    shape: tuple[int, ...]
    start: int
    end: int


class Layout(NamedTuple):
    """What the headers of a payload come to: where each array lies, its form, and the entries of value arrays."""

    places: tuple[Place, ...]
    forms: tuple[Form, ...]
    num_elements: int

    @property
    def size_bytes(self) -> int:
        """Bytes of all arrays."""
        return self.places[-1].end if self.places else 0


MAX_KNOWN_ARRAYS = 16
"""Of payloads with so few arrays it is remembered how they lie, which bounds what a peer can have remembered."""

_ITEM_BYTES = {number: CODEC_BYTES[name] for number, name in CODEC_NAMES.items()}
_LARGEST_ITEM = max(_ITEM_BYTES.values())


class _Payload(NamedTuple):
    headers: list[ArrayHeader]
    scalars: dict[str, bool | int | float | str]


def pack(payload: Payload) -> Packed:
    """Turn a payload into the form that travels; a single array that fits its codec is not copied.

    Raises:
        EncodeError: a payload over a limit.
        UnfitArrayError: content that cannot travel, such as a value that its codec cannot hold.
    """
    tensors = sorted(payload.tensors.items(), key=lambda item: -CODEC_BYTES.get(item[1].codec, 0))
    contents = [encode_tensor(name, tensor) for name, tensor in tensors]
    headers = [ArrayHeader(name, CODECS[tensor.codec].number, tensor.data.shape) for name, tensor in tensors]
    scalars = {name: _plain_scalar(name, value) for name, value in payload.scalars.items()}
    packed = Packed(headers, scalars, contents[0] if len(contents) == 1 else b"".join(contents))
    _checked(packed, EncodeError)
    return packed


def unpack(packed: Packed) -> Payload:
    """Turn what travelled into a payload again; its arrays are read-only views of the buffer where that is possible.

    Raises:
        DecodeError: the headers are not those of a payload, or do not add up to the buffer.
    """
    content = memoryview(packed.buffer)
    tensors = {
        name: Tensor(codec, decode_tensor(codec, shape, content[start:end]))
        for name, codec, shape, start, end in _checked(packed, DecodeError).places
    }
    return Payload(tensors, packed.scalars)


def encode(message: Message, packed: Packed | None = None, max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> list[Buffer]:
    """Return the frames of a message: one, or two where it carries a payload (the second may be empty).

    Raises:
        EncodeError: a payload too many or too few, a field that no header can hold, or more bytes than `max_bytes`.
    """
    kind = type(message).__name__
    if (packed is not None) != message.carries_payload:
        raise EncodeError(f"{kind}: expected {'a' if message.carries_payload else 'no'} payload")
    payload_entries = [] if packed is None else [packed.headers, packed.scalars]
    header = pack_header([message.tag, message, *payload_entries], kind)
    frames: list[Buffer] = [header] if packed is None else [header, packed.buffer]
    _check_size(frames, max_bytes, EncodeError, kind)
    return frames


def decode(
    frames: Frames,
    kinds: Mapping[int, type[Message]] = NETWORK,
    max_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
) -> tuple[Message, Packed | None]:
    """Return the message that the frames hold and, where its kind carries one, its payload.

    Args:
        frames: what came.
        kinds: the messages that may come, by tag.
        max_bytes: the most that all frames together may hold.

    Raises:
        UnknownMessageError: a message whose tag is not in `kinds`.
        DecodeError: anything else that is not a message; nothing else is raised, whatever the bytes. Arrays that do not
            fit their headers are for `unpack` to find.
    """
    if len(frames) not in (1, 2):
        raise DecodeError(f"expected one or two frames, got {len(frames)}")
    _check_size(frames, max_bytes, DecodeError, "message")
    tag, fields, *rest = _entries(unpack_header(frames[0]))
    kind = kinds.get(tag)
    if kind is None:
        raise UnknownMessageError(f"no message has the tag {tag}")
    expected = 2 if kind.carries_payload else 1
    if (len(frames), len(rest)) != (expected, 2 * expected - 2):
        raise DecodeError(
            f"{kind.__name__}: expected {expected} frames and {2 * expected} header entries,"
            f" got {len(frames)} and {2 + len(rest)}"
        )
    message = _convert(fields, kind, kind.__name__)
    return message, _packed(rest, frames[1], kind.__name__) if rest else None


def encoded_bytes(frames: Frames) -> int:
    """Return the bytes of all frames: header and arrays."""
    return sum(map(len, frames))


def _plain_scalar(name: str, value: Any) -> Scalar:
    plain = value.item() if isinstance(value, np.generic) else value
    if not isinstance(plain, (bool, int, float, str)):
        raise UnfitArrayError(f"scalar {name!r}: expected a number, text or truth value, got {type(value).__name__}")
    return plain


def _entries(content: Any) -> list[Any]:
    if not isinstance(content, list) or len(content) not in (2, 4):
        raise DecodeError("header: expected a list of 2 or 4 entries")
    if type(content[0]) is not int or not isinstance(content[1], list):
        raise DecodeError("header: expected an integer tag and a list of fields")
    return content


def _packed(rest: list[Any], buffer: Buffer, what: str) -> Packed:
    headers, scalars = _convert(rest, _Payload, what)
    return Packed(headers, scalars, buffer)


def _convert(content: Any, kind: Any, what: str) -> Any:
    try:
        return msgspec.convert(content, kind)
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise DecodeError(f"{what}: {error}") from None


def _check_size(frames: Frames, max_bytes: int, error: type[WireError], what: str) -> None:
    size = encoded_bytes(frames)
    if size > max_bytes:
        raise error(f"{what}: {size} bytes are more than [transport] max_message_bytes = {max_bytes}")


def _checked(packed: Packed, error: type[WireError]) -> Layout:
    """Return how the arrays lie; raises `error` unless headers, scalars and buffer fit each other."""
    try:
        layout = _arranged(packed.headers)
        _check_names(packed.scalars)
    except WireError as fault:
        raise error(str(fault)) from None
    if packed.scalars and not packed.scalars.keys().isdisjoint(place.name for place in layout.places):
        raise error("payload: a name stands for two arrays or scalars")
    if layout.size_bytes != len(packed.buffer):
        raise error(f"payload: expected {layout.size_bytes} bytes of arrays, got {len(packed.buffer)}")
    return layout


def _arranged(headers: Sequence[ArrayHeader]) -> Layout:
    """Return how such arrays lie; raises WireError if no payload has these headers."""
    if len(headers) > MAX_ARRAYS:
        raise WireError(f"payload: expected at most {MAX_ARRAYS} arrays, got {len(headers)}")
    arrange = _arrange if len(headers) <= MAX_KNOWN_ARRAYS else _arrange.__wrapped__
    return arrange(tuple(headers))


@functools.lru_cache(maxsize=256)
def _arrange(headers: tuple[ArrayHeader, ...]) -> Layout:
    """Check and lay out; in a run the same few headers come again and again."""
    _check_names([header.name for header in headers])
    places, start, num_elements, largest = [], 0, 0, _LARGEST_ITEM
    for header in headers:
        _check_array(header)
        if header.item_bytes > largest:
            raise WireError("payload: expected arrays with the largest items first")
        largest, end, codec = header.item_bytes, start + header.size_bytes, CODEC_NAMES[header.codec]
        places.append(Place(header.name, codec, header.shape, start, end))
        num_elements += header.num_entries if codec in ELEMENT_CODECS else 0
        start = end
    return Layout(tuple(places), tuple(Form(*place[:3]) for place in places), num_elements)


def _check_names(names: Collection[str]) -> None:
    if len(set(names)) != len(names):
        raise WireError("payload: a name stands for two arrays or scalars")
    for name in names:
        if len(name) > MAX_NAME_BYTES // 4 and len(name.encode(errors="replace")) > MAX_NAME_BYTES:
            raise WireError(f"payload: expected names of at most {MAX_NAME_BYTES} bytes, got {name[:40]!r}...")


def _check_array(header: ArrayHeader) -> None:
    """Check that there can be such an array."""
    if header.codec not in _ITEM_BYTES:
        raise WireError(f"array {header.name!r}: expected a codec number in {sorted(CODEC_NAMES)}, got {header.codec}")
    if len(header.shape) > MAX_RANK:
        raise WireError(f"array {header.name!r}: expected at most {MAX_RANK} dimensions, got {len(header.shape)}")
    padded = 1
    for size in header.shape:
        padded *= size or 1
        if size < 0 or padded > MAX_ENTRIES:
            raise WireError(f"array {header.name!r}: no array has the shape {header.shape}")
