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


def last_lines(log: Path, num_lines: int) -> list[str]:
    """Return the last lines of a log, so many at most; none if it cannot be read."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - END_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-num_lines:]
    except OSError:
        return []
