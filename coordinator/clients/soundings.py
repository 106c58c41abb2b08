"""Soundings: what a device sends to measure its way here, answered without any run's taking notice.

Only who may speak at the door comes this far. The answer holds no more payload than the question did and comes only so
often, so nobody can make a coordinator send more than he sends himself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from wire.encoding import EMPTY_PACKED, Frames, Packed, encode
from wire.limits import MAX_SOUNDING_BYTES, SOUNDINGS_PER_MINUTE
from wire.messages import Echo, Sounding
from wire.version import PROTOCOL_VERSION


class Soundings:
    """How many of each client were answered in the present minute."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, wall_clock: Callable[[], float] = time.time
    ) -> None:
        """Begin with none."""
        self._clock = clock
        self._wall_clock = wall_clock
        self._minute = 0
        self._answered: dict[str, int] = {}

    def echo(self, client: str, sounding: Sounding, packed: Packed, size_bytes: int) -> Frames:
        """Return the frames that answer a client's sounding of so many bytes; none if it is too long, or one too many.

        An echo is hardly longer than its sounding, so it is within the limits of a message.
        """
        minute = int(self._clock() // 60)
        if minute != self._minute:
            self._minute, self._answered = minute, {}
        if size_bytes > MAX_SOUNDING_BYTES or self._answered.get(client, 0) >= SOUNDINGS_PER_MINUTE:
            return []
        self._answered[client] = self._answered.get(client, 0) + 1
        version = (PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor)
        echo = Echo(version, sounding.number, client, self._wall_clock())
        return encode(echo, packed if sounding.returns else EMPTY_PACKED)
