"""What is measured is kept at once, a file each, so that a run that was stopped goes on with what is missing."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from tests.benchmarks.peers.processes import PeerError

T = TypeVar("T", bound=msgspec.Struct)


class Missing(msgspec.Struct, frozen=True, tag=True):
    """Something that could not be measured, and why."""

    reason: str


NOT_MEASURED = Missing("not measured")


class Notebook:
    """A folder of what was measured. All that is kept are tagged structs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, key: str, measure: Callable[[], msgspec.Struct]) -> None:
        """Measure something unless it is there."""
        path = self._path(key)
        if path.exists():
            return
        try:
            found = measure()
        except PeerError as error:
            print(error)
            found = Missing(error.what)
        path.write_bytes(msgspec.json.encode(found))
        print(f"{key}: {found}", flush=True)

    def read(self, key: str, kind: type[T]) -> T | Missing:
        """Return what is kept."""
        path = self._path(key)
        return msgspec.json.decode(path.read_bytes(), type=kind | Missing) if path.exists() else NOT_MEASURED

    def _path(self, key: str) -> Path:
        return self._folder / (re.sub(r"[^a-z0-9.]+", "-", key.lower()) + ".json")
