"""When to try the coordinator again: exponential backoff with jitter, capped. Pure: the jitter follows from a seed."""

from __future__ import annotations

import hashlib

FIRST_DELAY_S = 0.25
MAX_DELAY_S = 20.0
"""No pause between two attempts is longer than this."""

MIN_JITTER = 0.5
"""The share of a delay that is always waited, so that many clients do not return at once."""


class Backoff:
    """The pauses between attempts; `reset` after a success."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._draws = 0
        self.attempt = 0

    def reset(self) -> None:
        """Begin again with short pauses."""
        self.attempt = 0

    def next_delay_s(self) -> float:
        """Return the pause before the next attempt, between MIN_JITTER and all of the doubled delay."""
        delay = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self.attempt, 16))
        self.attempt += 1
        self._draws += 1
        digest = hashlib.sha256(f"{self._seed}/{self._draws}".encode()).digest()
        draw = int.from_bytes(digest[:8], "big") / 2.0**64
        return delay * (MIN_JITTER + (1.0 - MIN_JITTER) * draw)
