"""What a client has on disk: its folder, and in it the run constants by digest, so that each is sent once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from edge_client.config import ClientConfig

_NAME = re.compile(r"[0-9a-f]{64}\.safetensors")


def client_folder(config: ClientConfig) -> Path:
    """Return the folder where this client's state survives a restart."""
    return Path(config.client.dir).expanduser() / config.client.id


def held_digests(folder: Path) -> list[str]:
    """Return the digests of the run constants in a client's folder, for its hello."""
    shelf = folder / "constants"
    return sorted(path.stem for path in shelf.glob("*") if _NAME.fullmatch(path.name)) if shelf.is_dir() else []


class ConstantShelf:
    """The run constants in a client's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "constants"

    def missing(self, digests: Sequence[str]) -> list[str]:
        """Return those digests that are not here."""
        return [digest for digest in digests if not self._path(digest).is_file()]

    def put(self, name: str, digest: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep a run constant.

        Raises:
            ValueError: the arrays do not have this digest.
        """
        from models.checkpoint import state_hash, write

        found = state_hash(arrays)
        if found != digest:
            raise ValueError(f"run constant {name!r}: expected digest {digest}, got {found}")
        self._folder.mkdir(parents=True, exist_ok=True)
        write(self._path(digest), arrays, {"name": name})

    def get(self, digest: str) -> tuple[str, Mapping[str, np.ndarray]]:
        """Return name and arrays of a run constant that is here."""
        from models.checkpoint import read

        arrays, metadata = read(self._path(digest))
        return metadata["name"], arrays

    def _path(self, digest: str) -> Path:
        return self._folder / f"{digest}.safetensors"
