"""`metrics.jsonl` as it grows: what the disk has no room for waits in memory; at a restart the store tells it anew."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from coordinator.store.schema import is_full


class GrowingFile:
    """A file of lines that is appended to."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)
        self._unwritten = bytearray()

    def __enter__(self) -> GrowingFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Write what waits, and close.

        Raises:
            OSError: it cannot be written.
        """
        with self._file:
            self._write()

    def put(self, lines: Iterable[str]) -> None:
        """Append lines at the next `flush`."""
        for line in lines:
            self._unwritten += f"{line}\n".encode()

    def flush(self) -> None:
        """Write what waits, as far as there is room.

        Raises:
            OSError: it cannot be written for another reason.
        """
        try:
            self._write()
        except OSError as error:
            if not is_full(error):
                raise

    def _write(self) -> None:
        while self._unwritten:
            del self._unwritten[: self._file.write(self._unwritten)]
