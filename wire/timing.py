"""What a client measured of its work on an exchange: a third frame behind an update, which decides nothing.

It is apart from the header so that an update holds nothing but what follows from the run, and no message of its own so
that it wakes nobody. A lost or missing one leaves figures unknown and changes nothing else. The trainer writes it, and
its daemon puts in what only the daemon knows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from wire.errors import DecodeError
from wire.tensors import Buffer

_LAYOUT = struct.Struct("<5I3Qd")
_OLDEST = struct.Struct("<4I")
"""What the frame was before protocol 1.3: the first four durations."""

MAX_US = 2**32 - 1
"""A duration of so much or more, above 71 minutes, is told as this: it is not known."""


class Timing(NamedTuple):
    """A client's durations, in microseconds by its own monotonic clock, and what it took beside time.

    Attributes:
        train_us: training and computing the uplink.
        evaluate_us: taking in and testing models.
        checkpoint_us: reading and writing checkpoints.
        encode_us: encoding the uplink.
        held_us: from the task's coming to the update's going, all of the above included; 0 if unknown.
        client_peak_rss_bytes: peak resident memory of the daemon since the last uplink, or its trainer was ready; 0 if
            unknown.
        trainer_peak_rss_bytes: the same of the trainer.
        gpu_peak_bytes: peak memory that the trainer held on the GPU; 0 if unknown or without one.
        energy_j: what the device's sensors measured in that time, in joules; negative if unknown.
    """

    train_us: int
    evaluate_us: int
    checkpoint_us: int
    encode_us: int
    held_us: int = 0
    client_peak_rss_bytes: int = 0
    trainer_peak_rss_bytes: int = 0
    gpu_peak_bytes: int = 0
    energy_j: float = -1.0

    @classmethod
    def of_seconds(cls, train_s: float, evaluate_s: float, checkpoint_s: float, encode_s: float) -> Timing:
        """Return the timing of these durations."""
        return cls(*map(microseconds, (train_s, evaluate_s, checkpoint_s, encode_s)))

    @property
    def work_s(self) -> float | None:
        """Training, testing, checkpoints and encoding together, in seconds, None if one of them is not known."""
        return together_s(*map(seconds, self[:4]))

    def frame(self) -> bytes:
        """Return the frame that goes behind an update."""
        return _LAYOUT.pack(*self)


def microseconds(duration_s: float) -> int:
    """Return a duration as it is told."""
    return min(MAX_US, max(0, round(duration_s * 1e6)))


def seconds(duration_us: int) -> float | None:
    """Return a duration that was told, None of one too long to be."""
    return None if duration_us == MAX_US else duration_us / 1e6


def together_s(*durations_s: float | None) -> float | None:
    """Return the sum, None if one of them is not known."""
    return None if None in durations_s else sum(filter(None, durations_s))


def split_timing(frames: Sequence[Buffer]) -> tuple[Sequence[Buffer], Timing | None]:
    """Part a message's frames from the timing behind them, if there is one; a newer peer's may be longer.

    Raises:
        DecodeError: a third frame is too short.
    """
    if len(frames) != 3:
        return frames, None
    content = bytes(frames[2][: _LAYOUT.size])
    if len(content) < _OLDEST.size:
        raise DecodeError(f"timing: expected at least {_OLDEST.size} bytes, got {len(content)}")
    if len(content) < _LAYOUT.size:
        return frames[:2], Timing(*_OLDEST.unpack_from(content))
    return frames[:2], Timing(*_LAYOUT.unpack(content))
