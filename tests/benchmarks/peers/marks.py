"""What every contender's server notes of its rounds: a line each in a file, written there and read by the benchmark.

A line is when the round's work was about to be sent, when its last result was there and aggregation began, both by the
machine's monotonic clock, and how many results there were. `plugins/noop.py` writes the same.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Mark(NamedTuple):
    """A round of which all results are there."""

    sent_s: float
    came_s: float
    num_results: int


class Marks:
    """Writes them."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)  # opening it each time would take longer
        self._sent_s = 0.0

    def sent(self) -> None:
        """Note that a round's work is about to be sent."""
        self._sent_s = time.monotonic()

    def came(self, num_results: int) -> None:
        """Note that the round's last result is there."""
        came_s = time.monotonic()
        os.write(self._file, f"{self._sent_s} {came_s} {num_results}\n".encode())


def count(path: Path) -> int:
    """Return how many rounds are noted so far."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def read(path: Path) -> list[Mark]:
    """Return the rounds that are noted so far."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Mark(float(sent_s), float(came_s), int(num)) for sent_s, came_s, num in map(str.split, lines)]


def took_s(noted: Sequence[Mark]) -> list[float]:
    """Return how long each round took: since the results of the one before were there; the first since its sending."""
    first = [mark.came_s - mark.sent_s for mark in noted[:1]]
    return first + [mark.came_s - before.came_s for before, mark in itertools.pairwise(noted)]
