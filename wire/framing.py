"""How the frames of a message become ZeroMQ's frames, which are called parts here, and what that adds to their bytes.

In the plain form each frame is a part. In the joined form, which peers before protocol 1.4 do not know, a message that
carries a payload is one stream: a prefix, the header, the timing if there is one, the buffer. A short stream is one
part. A longer one is cut behind the timing, and where it is encrypted its buffer into pieces: a part is encrypted as a
whole, when the connection takes it, so of a buffer that goes to many no more than a piece for each is there twice.
"""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Sequence

from wire.errors import DecodeError
from wire.limits import MAX_PARTS, MAX_TIMING_BYTES, PIECE_BYTES, WHOLE_BYTES
from wire.tensors import Buffer

JOINED_SINCE = (1, 4)
"""The protocol version of the first peers that know the joined form."""

_MARK = b"\xc1"
"""What the joined form begins with, and no header does."""

_PREFIX = struct.Struct("<cBI")
"""The mark, the bytes of the timing (0: there is none) and those of the header."""

MAX_ADDED_BYTES = _PREFIX.size + MAX_TIMING_BYTES
"""What a message's parts may have beyond its header and buffer."""

CURVE_BYTES = 33
"""What CURVE adds to a part: the text `MESSAGE` and its length, 8 bytes of nonce, 16 of seal, 1 of flags."""


def is_joined(parts: Sequence[Buffer]) -> bool:
    """Say whether the parts are of the joined form."""
    return bool(parts) and parts[0][:1] == _MARK


def joined(frames: Sequence[Buffer], is_encrypted: bool) -> Sequence[Buffer]:
    """Return the parts of a message in the joined form; those of a large buffer are views of it."""
    if len(frames) == 1:
        return frames
    header, buffer, *rest = frames
    timing = rest[0] if rest else b""
    head = b"".join((_PREFIX.pack(_MARK, len(timing), len(header)), header, timing))
    _, *pieces = _part_sizes(tuple(map(len, frames)), is_encrypted)
    if not pieces:
        return [b"".join((head, buffer))]
    if len(pieces) == 1:
        return [head, buffer]
    ends, view = itertools.accumulate(pieces, initial=0), memoryview(buffer)
    return [head, *(view[start:end] for start, end in itertools.pairwise(ends))]


def parted(parts: Sequence[Buffer], max_bytes: int) -> list[Buffer]:
    """Return the frames of a message that came in either form; a buffer that came as one part is that part, uncopied.

    Raises:
        DecodeError: more than `max_bytes` or too many parts, or no joined form though it begins like one.
    """
    size = sum(map(len, parts))
    if size > max_bytes + MAX_ADDED_BYTES:
        raise DecodeError(f"{size} bytes are more than [transport] max_message_bytes = {max_bytes}")
    if len(parts) > MAX_PARTS:
        raise DecodeError(f"expected at most {MAX_PARTS} parts, got more")
    if not is_joined(parts):
        return [bytes(part) for part in parts]
    first = memoryview(parts[0])
    if len(first) < _PREFIX.size:
        raise DecodeError(f"joined form: expected a prefix of {_PREFIX.size} bytes, got {len(first)}")
    _, timing_bytes, header_bytes = _PREFIX.unpack_from(first)
    timing_at = _PREFIX.size + header_bytes
    buffer_at = timing_at + timing_bytes
    if buffer_at > len(first):
        raise DecodeError(f"joined form: expected {buffer_at} bytes of header and timing in its first part, got fewer")
    header, timing = bytes(first[_PREFIX.size : timing_at]), bytes(first[timing_at:buffer_at])
    is_apart = len(parts) == 2 and buffer_at == len(first)
    buffer = parts[1] if is_apart else b"".join((first[buffer_at:], *parts[1:]))
    return [header, buffer, timing] if timing else [header, buffer]


def framed_bytes(frames: Sequence[Buffer], is_encrypted: bool) -> int:
    """Return the bytes that ZMTP 3.1 sends of a message in the joined form.

    It adds 2 to a part of up to 255 bytes and 9 to others; encryption makes each longer before that. The plain form of
    older peers differs by some ten bytes, which only the kernel's count tells: no message says how it travelled.
    """
    return _framed(tuple(map(len, frames)), is_encrypted)


@functools.lru_cache(maxsize=256)
def _framed(frame_bytes: tuple[int, ...], is_encrypted: bool) -> int:
    sizes = [size + (CURVE_BYTES if is_encrypted else 0) for size in _part_sizes(frame_bytes, is_encrypted)]
    return sum(size + (2 if size <= 255 else 9) for size in sizes)


@functools.lru_cache(maxsize=16)
def _part_sizes(frame_bytes: tuple[int, ...], is_encrypted: bool) -> list[int]:
    """Return the bytes of each part of such frames in the joined form; in a run the same sizes come again and again."""
    header_bytes, *rest = frame_bytes
    if not rest:
        return [header_bytes]
    buffer_bytes, head_bytes = rest[0], _PREFIX.size + header_bytes + sum(rest[1:])
    if head_bytes + buffer_bytes <= WHOLE_BYTES:
        return [head_bytes + buffer_bytes]
    if not is_encrypted:
        return [head_bytes, buffer_bytes]
    return [head_bytes, *(min(PIECE_BYTES, buffer_bytes - at) for at in range(0, buffer_bytes, PIECE_BYTES))]
