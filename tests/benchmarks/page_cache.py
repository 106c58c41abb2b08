"""Has the environment's files be read from disk again, as after a boot.

    python -m tests.benchmarks.page_cache

Files that were written just now lie in the page cache in larger pieces, of which the kernel gives a process more than
it uses: the same code then has a tenth more resident. Nothing may have loaded them, so this is a command of its own.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path


def main() -> None:
    """Drop what the page cache has of Python's library and of the packages, where the system can be asked to."""
    if not hasattr(os, "posix_fadvise"):
        return
    os.sync()  # only what is on disk can be dropped
    for path in _files():
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def _files() -> Iterator[Path]:
    for folder in {sys.prefix, sysconfig.get_path("stdlib")}:
        yield from (path for path in Path(folder).rglob("*") if path.is_file() and os.access(path, os.R_OK))


if __name__ == "__main__":
    main()
