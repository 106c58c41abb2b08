"""A child's end of a pipe, without another process."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from wire.encoding import Frames, decode
from wire.limits import PIPE_BYTES
from wire.messages import Message


class HeldPipe:
    """Holds what comes, then closes; `sent` is what the child says, of which the first frames are these `kinds`."""

    def __init__(self, kinds: Mapping[int, type[Message]], *coming: Frames) -> None:
        self._kinds = kinds
        self._coming = deque(coming)
        self.sent: list[Message] = []

    def receive(self) -> list[bytes]:
        """Return what comes next."""
        if not self._coming:
            raise EOFError
        return list(map(bytes, self._coming.popleft()))

    def send(self, frames: Frames) -> None:
        """Note what the child says."""
        self.sent.append(decode(frames[:2], self._kinds, PIPE_BYTES)[0])  # an update has its timing behind it

    def has_message(self, wait_s: float = 0.0) -> bool:
        """Say that nothing waits, and that what comes next does so within any time."""
        return wait_s > 0 and bool(self._coming)
