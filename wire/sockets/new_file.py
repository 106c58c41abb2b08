"""Small files that are made once, such as secrets: whole and on disk, or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

LEFT_AFTER_S = 60.0
"""A draft that is older was left by a crash."""

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What file systems say that know one name for a file, such as FAT."""


def write_new(path: Path, content: bytes) -> None:
    """Make a file that its owner alone may use; a crash leaves all of it or none, and one that is there stays.

    Raises:
        FileExistsError: there is one already.
        OSError: it cannot be written; nothing of it is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}.draft")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _name(draft, path)
    except OSError as error:
        error.filename = str(path)  # a disk that is full does not say where
        raise
    finally:
        draft.unlink(missing_ok=True)
    _sync(path.parent)


def _sweep(path: Path) -> None:
    """Remove the drafts of this file that a crash has left; a young one may be somebody's at work."""
    for draft in path.parent.glob(f".{path.name}.*.draft"):
        with contextlib.suppress(OSError):
            if draft.stat().st_mtime < time.time() - LEFT_AFTER_S:
                draft.unlink()


def _name(draft: Path, path: Path) -> None:
    """Give a draft its name, which no other file may have."""
    try:
        os.link(draft, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        draft.rename(path)


def _sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
