"""Large update buffers as files in a folder beside the store.

A file is written and synced before the row that names it is committed, and deleted after the commit that drops the
row. So a row always has its file, and a file without a row is the trace of a kill: `sweep` deletes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from models.checkpoint import sync_folder
from models.failpoints import reach

UpdateKey = tuple[int, int, str]
"""Round, exchange and client of an update."""


class BufferFolder:
    """One file for each buffer, found by the key of its update."""

    def __init__(self, path: Path) -> None:
        """Use the folder at `path`; it is made when the first buffer needs it."""
        self._path = path

    def write(self, key: UpdateKey, buffer: bytes | bytearray | memoryview) -> None:
        """Write a buffer; file and name are durable on return."""
        if not self._path.exists():
            self._path.mkdir()
            sync_folder(self._path.parent)
        with open(self._path / _file_name(*key), "wb") as file:
            file.write(buffer)
            file.flush()
            os.fsync(file.fileno())
        sync_folder(self._path)
        reach("buffer.written")

    def read(self, key: UpdateKey) -> bytes | None:
        """Return a buffer, None if there is no file for it."""
        try:
            return (self._path / _file_name(*key)).read_bytes()
        except FileNotFoundError:
            return None

    def drop(self, keys: Iterable[UpdateKey]) -> None:
        """Delete buffers that no row names any more."""
        # One that stays is swept when the store is opened again: nothing depends on it.
        with contextlib.suppress(OSError):
            for key in keys:
                (self._path / _file_name(*key)).unlink(missing_ok=True)

    def sweep(self, expected: Iterable[tuple[UpdateKey, int]]) -> None:
        """Delete the files that are not expected.

        Args:
            expected: the key and the size in bytes of every buffer that must be here.

        Raises:
            OSError: one of them is missing or has another size.
        """
        sizes = {_file_name(*key): size for key, size in expected}
        found = {file.name: file.stat().st_size for file in self._path.glob("*-*-*")}
        for name, size in sizes.items():
            if found.get(name) != size:
                raise OSError(f"buffer {self._path / name}: expected {size} bytes, got {found.get(name, 'no file')}")
        for name in found.keys() - sizes.keys():
            (self._path / name).unlink()


def _file_name(round: int, exchange: int, client: str) -> str:
    """Name the file of a buffer; the client's id may hold any characters, so it goes in as a hash."""
    return f"{round:06d}-{exchange:02d}-{hashlib.sha256(client.encode()).hexdigest()[:32]}"
