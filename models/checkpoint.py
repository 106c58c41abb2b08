"""States as safetensors files that are there whole or not at all, and the hash of a state."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from models.failpoints import reach

TEMPORARY_SUFFIX = ".tmp"
"""What a file that was never finished is called; safe to remove whenever its writer is gone."""


_CHECKSUM = "crc32"
"""The text that says what the bytes of all arrays must come to; files of others have none.

It is the only one of ours: safetensors writes several in any order, and needs one where there are no arrays.
"""

_NOT_TOLD = (_CHECKSUM, "format")
"""Texts that are not the writer's own; the latter is that of files of others, and of older ones of ours."""


class CheckpointError(Exception):
    """A state file that cannot be read; the text names its path."""


def write(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None, durable: bool = True
) -> None:
    """Write arrays and texts: after a kill at any moment `path` holds the old content or the new, whole.

    If it is to be durable, so it does after a loss of power; and what was written stays written.
    """
    ordered = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    content = save(ordered, {_CHECKSUM: _checksum(ordered), **(metadata or {})})
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        error.filename = str(temporary)  # a disk that is full does not say where
        raise
    reach("file.written")
    temporary.replace(path)
    reach("file.renamed")
    if durable:
        sync_folder(path.parent)


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays and texts that `write` put there.

    Raises:
        CheckpointError: there is no such file, or it is broken: bytes that have changed since are found.
    """
    with _opened(path) as file:
        names = file.keys()
        try:
            arrays = {name: file.get_tensor(name) for name in names}
        except (AttributeError, TypeError) as error:  # a type that numpy does not have, such as bfloat16
            raise CheckpointError(f"{path}: expected arrays of numpy's types: {error}") from None
        for name, array in arrays.items():
            if array.dtype.isbuiltin != 1:  # but that another package has taught it
                raise CheckpointError(f"{path}: expected arrays of numpy's types, got {array.dtype} for {name!r}")
        checksum = _checksum(arrays)
        if (file.metadata() or {}).get(_CHECKSUM, checksum) != checksum:
            raise CheckpointError(f"{path}: expected the arrays that were written, got others: the file is damaged")
        return arrays, _texts(file)


def read_metadata(path: Path) -> dict[str, str]:
    """Return the texts of a file alone.

    Raises:
        CheckpointError: there is no such file, or it is broken.
    """
    with _opened(path) as file:
        return _texts(file)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: expected a safetensors file: {error}") from None


def _texts(file: Any) -> dict[str, str]:
    return {name: text for name, text in (file.metadata() or {}).items() if name not in _NOT_TOLD}


def _checksum(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the CRC-32 of all arrays' bytes, by name, in hexadecimal."""
    found = 0
    for name in sorted(arrays):
        found = zlib.crc32(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data, found)
    return f"{found:08x}"


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: files created, renamed or deleted there."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def state_hash(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the sha256 of names, dtypes, shapes and bytes, in hexadecimal; the order of the names does not count."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        digest.update(f"{len(name)}:{name} {little.dtype.str} {little.shape}\n".encode())
        digest.update(little.reshape(-1).data)
    return digest.hexdigest()
