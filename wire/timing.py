"""How long a client worked on an exchange: a third frame behind an update, measurement only.

It is apart from the header so that an update holds nothing but what follows from the run, and no message of its own so
that it wakes nobody. A lost or missing one leaves figures unknown and changes nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from wire.errors import DecodeError
from wire.tensors import Buffer

_LAYOUT = struct.Struct("<4I")

MAX_US = 2**32 - 1
"""A longer duration, more than 71 minutes, is told as this."""


class Timing(NamedTuple):
    """The parts of a client's work on one exchange, in microseconds by its own monotonic clock."""

    train_us: int
    evaluate_us: int
    checkpoint_us: int
    encode_us: int

    @classmethod
    def of_seconds(cls, train_s: float, evaluate_s: float, checkpoint_s: float, encode_s: float) -> Timing:
        """Return the timing of these durations."""
        parts = (train_s, evaluate_s, checkpoint_s, encode_s)
        return cls(*(min(MAX_US, max(0, round(part * 1e6))) for part in parts))

    @property
    def total_s(self) -> float:
        """All of it, in seconds."""
        return sum(self) / 1e6

    def frame(self) -> bytes:
        """Return the frame that goes behind an update."""
        return _LAYOUT.pack(*self)


def split_timing(frames: Sequence[Buffer]) -> tuple[Sequence[Buffer], Timing | None]:
    """Part a message's frames from the timing behind them, if there is one; a newer peer's may be longer.

    Raises:
        DecodeError: a third frame is too short.
    """
    if len(frames) != 3:
        return frames, None
    if len(frames[2]) < _LAYOUT.size:
        raise DecodeError(f"timing: expected at least {_LAYOUT.size} bytes, got {len(frames[2])}")
    return frames[:2], Timing(*_LAYOUT.unpack_from(frames[2]))
