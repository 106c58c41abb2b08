"""Image files that were read, by the digest of their content; one that has not changed is not read again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from models.data import scaled
from models.datasets.pixels import read_image
from models.spec import DataConfig

MAX_FILE_BYTES = 1 << 28
"""A larger file is not read."""


class _Version(NamedTuple):
    """A state of a file, as far as it shows from outside."""

    size_bytes: int
    mtime_ns: int


class ImageCache:
    """What is in memory: the pixels of readable files as a net takes them, and of the others why they are none."""

    def __init__(self, config: DataConfig) -> None:
        self._config = config
        self._seen: dict[Path, tuple[_Version, str]] = {}
        self._asked: set[Path] = set()
        self._pixels: dict[str, np.ndarray] = {}
        self._faults: dict[str, str] = {}

    def digest(self, path: Path) -> str:
        """Return the sha256 of a file's content, which has been read by then.

        Raises:
            OSError: it cannot be read, at least not now.
        """
        about = path.stat()
        version = _Version(about.st_size, about.st_mtime_ns)
        seen, digest = self._seen.get(path, (None, ""))
        if seen != version or (digest not in self._pixels and digest not in self._faults):
            if version.size_bytes > MAX_FILE_BYTES:
                raise OSError(0, f"larger than {MAX_FILE_BYTES >> 20} MiB")
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            self._read(digest, content)
            self._seen[path] = (version, digest)
        self._asked.add(path)
        return digest

    def fault(self, digest: str) -> str:
        """Say why a file that was read is no image; nothing if it is one."""
        return self._faults.get(digest, "")

    def pixels(self, digest: str) -> np.ndarray:
        """Return an image, float32 [channels, size, size]."""
        return self._pixels[digest]

    def share(self, digests: Iterable[str], pixels: Iterable[np.ndarray]) -> None:
        """Hold these pixels in the caller's arrays, so that they are in memory once."""
        self._pixels.update(zip(digests, pixels, strict=True))

    def forget_others(self) -> None:
        """Hold nothing of files whose digest was not asked for since the last call."""
        self._seen = {path: self._seen[path] for path in self._asked}
        self._asked = set()
        held = {digest for _, digest in self._seen.values()}
        self._pixels = {digest: pixels for digest, pixels in self._pixels.items() if digest in held}
        self._faults = {digest: fault for digest, fault in self._faults.items() if digest in held}

    def _read(self, digest: str, content: bytes) -> None:
        if digest in self._pixels or digest in self._faults:
            return
        config = self._config
        try:
            pixels = read_image(BytesIO(content), config.channels, config.image_size)
        except ValueError as error:
            self._faults[digest] = str(error)
        else:
            self._pixels[digest] = scaled(pixels[None], config.mean, config.std)[0]
