"""What a process says for people: a line on standard error, and the end of the file where such lines are kept."""

from __future__ import annotations

import os
import sys
from pathlib import Path

END_BYTES = 8192
"""No more than so much of a file's end is read."""


def say(text: str) -> None:
    """Print a line for people; output that nobody can take is not an error."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        return


def size_bytes(log: Path) -> int:
    """Return how much there is of a log by now, nothing if there is none."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def last_lines(log: Path, num_lines: int, after_bytes: int = 0) -> list[str]:
    """Return the last lines of a log behind its first so many bytes, so many at most; none if it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(after_bytes, file.seek(0, os.SEEK_END) - END_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-num_lines:]
    except OSError:
        return []
