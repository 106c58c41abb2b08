"""What a peer's server notes of its rounds: a line each in a file, written there and read by the benchmark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple


class Mark(NamedTuple):
    """A round that is over: when its work was about to be sent, when all results were there, and how many came."""

    sent_s: float
    came_s: float
    num_results: int


class Marks:
    """Writes them, by the machine's monotonic clock."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._sent_s = 0.0

    def sent(self) -> None:
        """Note that a round's work is about to be sent."""
        self._sent_s = time.monotonic()

    def came(self, num_results: int) -> None:
        """Note that the round's last result is there."""
        came_s = time.monotonic()
        with self._path.open("a") as file:
            print(self._sent_s, came_s, num_results, file=file)


def read(path: Path) -> list[Mark]:
    """Return the rounds that are over so far."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Mark(float(sent_s), float(came_s), int(num)) for sent_s, came_s, num in map(str.split, lines)]
