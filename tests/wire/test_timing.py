from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import DecodeError
from wire.timing import MAX_US, Timing, seconds, split_timing, together_s


@given(st.tuples(*[st.integers(0, MAX_US)] * 5), st.tuples(*[st.integers(0, 2**64 - 1)] * 3), st.floats(-1.0, 1e300))
def test_a_timing_comes_back_as_it_went(
    durations: tuple[int, int, int, int, int], peaks: tuple[int, int, int], energy_j: float
) -> None:
    timing = Timing(*durations, *peaks, energy_j)
    frames = [b"header", b"buffer", timing.frame()]
    assert split_timing(frames) == ([b"header", b"buffer"], timing)


def test_its_frame_is_as_specified() -> None:
    durations, peaks = (1, 2, 3, 4, 5), (6, 7, 8)
    expected = b"".join(number.to_bytes(4, "little") for number in durations)
    expected += b"".join(number.to_bytes(8, "little") for number in peaks) + bytes.fromhex("000000000000f8bf")
    assert Timing(*durations, *peaks, -1.5).frame() == expected


def test_of_an_older_peer_s_all_else_is_unknown() -> None:
    frame = Timing(1, 2, 3, 4, 5, 6, 7, 8, 9.0).frame()
    for length in range(16, len(frame)):
        assert split_timing([b"", b"", frame[:length]])[1] == Timing(1, 2, 3, 4)


def test_durations_become_microseconds_and_never_overflow() -> None:
    assert Timing.of_seconds(0.5, 1e-6, 0.0, -1e-9) == Timing(500_000, 1, 0, 0)
    assert Timing.of_seconds(1e9, 0, 0, 0).train_us == MAX_US


def test_a_duration_that_is_too_long_to_be_told_is_unknown() -> None:
    assert (seconds(0), seconds(MAX_US - 1), seconds(MAX_US)) == (0.0, 4294.967294, None)
    assert Timing.of_seconds(1.0, 0.5, 0.25, 0.25).work_s == 2.0
    assert Timing.of_seconds(1.0, 5000.0, 0.25, 0.25).work_s is None
    assert (together_s(), together_s(1.0, 2.0), together_s(1.0, None)) == (0, 3.0, None)


@pytest.mark.parametrize("frames", [[b"one"], [b"one", b"two"], [b"1", b"2", b"3", b"4"], []])
def test_messages_without_one_are_left_alone(frames: list[bytes]) -> None:
    assert split_timing(frames) == (frames, None)


def test_a_longer_one_is_of_a_newer_version_and_a_shorter_one_is_none() -> None:
    longer = Timing(1, 2, 3, 4).frame() + b"more"
    assert split_timing([b"", b"", longer])[1] == Timing(1, 2, 3, 4)
    with pytest.raises(DecodeError, match="timing: expected at least 16 bytes, got 15"):
        split_timing([b"", b"", bytes(15)])
