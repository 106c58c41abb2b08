from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import DecodeError
from wire.timing import MAX_US, Timing, split_timing


@given(st.tuples(*[st.integers(0, MAX_US)] * 4))
def test_a_timing_comes_back_as_it_went(parts: tuple[int, int, int, int]) -> None:
    timing = Timing(*parts)
    frames = [b"header", b"buffer", timing.frame()]
    assert split_timing(frames) == ([b"header", b"buffer"], timing)


def test_its_frame_is_as_specified() -> None:
    assert Timing(1, 2, 3, 4).frame() == bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0])


def test_durations_become_microseconds_and_never_overflow() -> None:
    assert Timing.of_seconds(0.5, 1e-6, 0.0, -1e-9) == Timing(500_000, 1, 0, 0)
    assert Timing.of_seconds(1e9, 0, 0, 0).train_us == MAX_US


@pytest.mark.parametrize("frames", [[b"one"], [b"one", b"two"], [b"1", b"2", b"3", b"4"], []])
def test_messages_without_one_are_left_alone(frames: list[bytes]) -> None:
    assert split_timing(frames) == (frames, None)


def test_a_longer_one_is_of_a_newer_version_and_a_shorter_one_is_none() -> None:
    longer = Timing(1, 2, 3, 4).frame() + b"more"
    assert split_timing([b"", b"", longer])[1] == Timing(1, 2, 3, 4)
    with pytest.raises(DecodeError, match="timing: expected at least 16 bytes, got 15"):
        split_timing([b"", b"", bytes(15)])
