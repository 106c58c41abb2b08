"""Frames as the parts that travel, in both forms, and their way back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import DecodeError
from wire.framing import MAX_ADDED_BYTES, framed_bytes, is_joined, joined, parted
from wire.limits import DEFAULT_MAX_MESSAGE_BYTES, MAX_PARTS, PIECE_BYTES, WHOLE_BYTES
from wire.timing import Timing

HEADER, TIMING = b"\x94header", Timing(1, 2, 3, 4).frame()
PREFIX_BYTES = 6
LIMIT = 1000


def test_a_header_alone_travels_as_it_is() -> None:
    assert joined([HEADER], is_encrypted=True) == [HEADER]
    assert not is_joined([HEADER])


def test_a_short_message_is_one_part() -> None:
    assert joined([HEADER, b"buffer"], False) == [b"\xc1\x00\x07\x00\x00\x00" + HEADER + b"buffer"]
    assert joined([HEADER, b"buffer", TIMING], True) == [b"\xc1\x34\x07\x00\x00\x00" + HEADER + TIMING + b"buffer"]


def test_a_long_message_is_cut_behind_its_timing() -> None:
    buffer = bytes(2 * PIECE_BYTES)
    parts = joined([HEADER, buffer], is_encrypted=False)
    assert parts == [b"\xc1\x00\x07\x00\x00\x00" + HEADER, buffer]
    assert parted(parts, DEFAULT_MAX_MESSAGE_BYTES)[1] is buffer


def test_where_it_is_encrypted_its_buffer_is_cut_into_views() -> None:
    buffer = np.arange(2 * PIECE_BYTES + 5, dtype=np.uint8)
    first, *pieces = joined([HEADER, memoryview(buffer.data), TIMING], is_encrypted=True)
    assert first == b"\xc1\x34\x07\x00\x00\x00" + HEADER + TIMING
    assert [len(piece) for piece in pieces] == [PIECE_BYTES, PIECE_BYTES, 5]
    assert all(np.shares_memory(np.frombuffer(piece, np.uint8), buffer) for piece in pieces)
    assert parted([first, *pieces], DEFAULT_MAX_MESSAGE_BYTES) == [HEADER, buffer.tobytes(), TIMING]


@pytest.mark.parametrize(("buffer_bytes", "num_parts"), [(0, 1), (WHOLE_BYTES - 13, 1), (WHOLE_BYTES - 12, 2)])
def test_a_message_is_one_part_as_long_as_that_is_short(buffer_bytes: int, num_parts: int) -> None:
    assert PREFIX_BYTES + len(HEADER) == 13
    assert len(joined([HEADER, bytes(buffer_bytes)], is_encrypted=True)) == num_parts


def test_the_largest_message_that_can_be_allowed_is_cut_into_as_many_parts_as_are_allowed() -> None:
    most_bytes = 2**31 - 1
    assert 1 + -(-most_bytes // PIECE_BYTES) == MAX_PARTS


@given(st.lists(st.binary(min_size=1, max_size=99), max_size=5), st.sampled_from([[], [TIMING]]))
def test_both_forms_come_back_as_the_frames_wherever_the_buffer_is_cut(
    pieces: list[bytes], timing: list[bytes]
) -> None:
    frames = [HEADER, b"".join(pieces), *timing]
    first = joined([HEADER, b"", *timing], True)
    assert parted(frames, LIMIT) == parted(joined(frames, True), LIMIT) == parted([*first, *pieces], LIMIT) == frames


@given(st.lists(st.binary(max_size=20), max_size=4), st.booleans())
def test_any_bytes_are_frames_or_refused(parts: list[bytes], has_mark: bool) -> None:
    if has_mark:
        parts = [b"\xc1" + b"".join(parts[:1]), *parts[1:]]
    try:
        frames = parted(parts, LIMIT)
    except DecodeError:
        assert is_joined(parts)
        return
    assert len(frames) in (2, 3) if is_joined(parts) else frames == parts


@pytest.mark.parametrize("first", [b"\xc1", b"\xc1\x00\x07\x00\x00", b"\xc1\x00\x07\x00\x00\x00header"])
def test_header_and_timing_stand_in_the_first_part(first: bytes) -> None:
    with pytest.raises(DecodeError, match="joined form: expected"):
        parted([first, bytes(100)], LIMIT)


def test_a_header_of_four_gigabytes_is_refused() -> None:
    with pytest.raises(DecodeError, match="expected 4294967556 bytes"):
        parted([b"\xc1" + b"\xff" * 5], LIMIT)


def test_a_message_too_long_or_in_too_many_parts_is_refused() -> None:
    parted([HEADER, bytes(LIMIT)], LIMIT)
    with pytest.raises(DecodeError, match="max_message_bytes = 1000"):
        parted([HEADER, bytes(LIMIT + MAX_ADDED_BYTES)], LIMIT)
    parted([b""] * MAX_PARTS, LIMIT)
    with pytest.raises(DecodeError, match="expected at most 8193 parts"):
        parted([b""] * (MAX_PARTS + 1), LIMIT)


def test_the_bytes_that_zmtp_makes_of_a_message() -> None:
    assert framed_bytes([bytes(255)], is_encrypted=False) == 2 + 255
    assert framed_bytes([bytes(255)], is_encrypted=True) == 9 + 33 + 255
    assert framed_bytes([bytes(10), bytes(200)], is_encrypted=False) == 2 + PREFIX_BYTES + 210
    assert framed_bytes([bytes(10), bytes(200), TIMING], is_encrypted=True) == 9 + 33 + PREFIX_BYTES + 210 + 52
    large = [bytes(10), bytes(PIECE_BYTES + 100)]
    assert framed_bytes(large, is_encrypted=False) == (2 + PREFIX_BYTES + 10) + (9 + PIECE_BYTES + 100)
    assert framed_bytes(large, is_encrypted=True) == (2 + 33 + PREFIX_BYTES + 10) + (9 + 33 + PIECE_BYTES) + (2 + 133)


@pytest.mark.parametrize(
    "size", [0, 1, WHOLE_BYTES, WHOLE_BYTES + 1, PIECE_BYTES, 2 * PIECE_BYTES, 2 * PIECE_BYTES + 1]
)
@pytest.mark.parametrize("is_encrypted", [False, True])
def test_what_travels_is_counted_as_it_is_cut(size: int, is_encrypted: bool) -> None:
    frames = [HEADER, bytes(size), TIMING]
    sizes = [len(part) + 33 * is_encrypted for part in joined(frames, is_encrypted)]
    assert framed_bytes(frames, is_encrypted) == sum(size + (2 if size <= 255 else 9) for size in sizes)
    assert parted(joined(frames, is_encrypted), DEFAULT_MAX_MESSAGE_BYTES) == frames
