"""`metrics.jsonl` read back: the lines of a run's accounts, whatever has become of the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coordinator.metrics.tally import Line, read_line
from models.spec import ConfigError


def whole_line(content: bytes) -> Line | None:
    """Return a line of the file, None if it is damaged or cut off."""
    try:
        return read_line(content)
    except (ValueError, RecursionError):
        return None


def written_lines(path: Path) -> Iterator[str | None]:
    """Yield the text of each line of the file, None in the place of one that is damaged or cut off.

    Raises:
        OSError: there is no file, or it cannot be read.
    """
    with path.open("rb") as file:
        for content in file:
            yield content.decode().rstrip("\n") if whole_line(content) is not None else None


def all_written_lines(path: Path) -> list[str]:
    """Return the text of all lines of the file.

    Raises:
        ConfigError: there is no file, it cannot be read, or a line is damaged; the text names it.
    """
    lines = []
    try:
        for number, line in enumerate(written_lines(path), 1):
            if line is None:
                raise ConfigError(f"{path}: expected the accounts of a run, got a damaged line, number {number}")
            lines.append(line)
    except OSError as error:
        raise ConfigError(f"{path}: expected the accounts of a run, got {error.strerror}") from None
    return lines
