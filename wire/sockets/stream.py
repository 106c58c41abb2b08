"""Messages on a stream of bytes: each is a count of frames, their sizes, then the frames.

Small frames are written and read many at a time, as every write wakes the other end and every read costs a call into
the system. A large frame is neither joined to others nor cut out of them: it is written as it lies, and read into the
memory in which it is handed on.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from wire.limits import PIPE_BYTES
from wire.tensors import Buffer

MAX_FRAMES = 3
"""A message is a header and at most one buffer, an update may have its timing behind it."""

SMALL_BYTES = 64 * 1024
"""The largest frame that is small."""

TOGETHER_BYTES = 16 * 1024
"""Small frames are written together up to this size: the other end begins while later ones are still being made."""

_PREFIX = struct.Struct(f"<{1 + MAX_FRAMES}I")
"""How many frames there are, and their sizes, 0 where there is none."""

_NO_FRAMES = (0,) * MAX_FRAMES


class StreamError(Exception):
    """What came is no message, and so is all that follows; the text says what was expected and what came."""


def pieces(messages: Iterable[Sequence[Buffer]]) -> Iterator[Buffer]:
    """Yield what is to be written for these messages, piece by piece; each message is asked for when its turn comes."""
    together: list[Buffer] = []
    size = 0
    for frames in messages:
        for part in (_prefix(frames), *frames):
            is_large = len(part) > SMALL_BYTES
            if together and (is_large or size + len(part) > TOGETHER_BYTES):
                yield b"".join(together)
                together, size = [], 0
            if is_large:
                yield part
            else:
                together.append(part)
                size += len(part)
    if together:
        yield b"".join(together)


class Inbox:
    """Takes in bytes as they come, `room` by `room`, and gives out the messages that they make."""

    def __init__(self) -> None:
        self._small = memoryview(bytearray(SMALL_BYTES))
        self._start = self._end = 0  # of what has come there and is in no frame yet
        self._sizes: list[int] = []
        self._frames: list[Buffer] = []
        self._large: memoryview | None = None
        self._large_end = 0

    @property
    def has_more(self) -> bool:
        """Say whether something has come that is in none of the messages taken."""
        return bool(self._sizes) or self._start < self._end

    def room(self) -> memoryview:
        """Return where the next bytes go, never empty once all messages are taken."""
        if self._large is not None:
            return self._large[self._large_end :]
        rest = self._end - self._start
        if self._start:
            self._small[:rest] = self._small[self._start : self._end]
            self._start, self._end = 0, rest
        return self._small[rest:]

    def filled(self, count: int) -> None:
        """Note that so many bytes have come to where the last `room` was."""
        if self._large is not None:
            self._large_end += count
        else:
            self._end += count

    def take(self) -> list[Buffer] | None:
        """Return the next message, None while it is not whole; its large frames are views, the others are bytes.

        Raises:
            StreamError: it has more frames or bytes than a message may; nothing is held for it.
        """
        if not self._sizes and not self._begin():
            return None
        for size in self._sizes[len(self._frames) :]:
            frame = self._next_frame(size)
            if frame is None:
                return None
            self._frames.append(frame)
        frames, self._frames, self._sizes = self._frames, [], []
        return frames

    def _begin(self) -> bool:
        if self._end - self._start < _PREFIX.size:
            return False
        count, *sizes = _PREFIX.unpack_from(self._small, self._start)
        if not 1 <= count <= MAX_FRAMES:
            raise StreamError(f"expected a message of 1 to {MAX_FRAMES} frames, got one of {count}")
        if sum(sizes) > PIPE_BYTES:
            raise StreamError(f"expected a message of up to {PIPE_BYTES} bytes, got one of {sum(sizes)}")
        self._start += _PREFIX.size
        self._sizes = sizes[:count]
        return True

    def _next_frame(self, size: int) -> Buffer | None:
        if size > SMALL_BYTES:
            return self._large_frame(size)
        end = self._start + size
        if end > self._end:
            return None
        frame = bytes(self._small[self._start : end])
        self._start = end
        return frame

    def _large_frame(self, size: int) -> Buffer | None:
        if self._large is None:
            self._large = np.empty(size, np.uint8).data
            begun = self._small[self._start : self._end][:size]
            self._large[: len(begun)] = begun
            self._start, self._large_end = self._start + len(begun), len(begun)
        if self._large_end < size:
            return None
        frame, self._large = self._large.toreadonly(), None
        return frame


def _prefix(frames: Sequence[Buffer]) -> bytes:
    return _PREFIX.pack(len(frames), *map(len, frames), *_NO_FRAMES[len(frames) :])
