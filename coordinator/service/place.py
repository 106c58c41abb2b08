"""The place of a service: its folder, of its owner alone, and the same one from start to end."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from coordinator.service.queue import FILE
from coordinator.store.schema import lock_mark, lock_store, refused
from coordinator.store.store import StoreError
from models.spec import ConfigError
from wire.sockets.keys import OTHERS


class Place:
    """A folder that this process has for itself, under a path that holds wherever the process may be."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, which is made if it is missing.

        Raises:
            ConfigError: it cannot be written to, others may enter it, or another process has it.
        """
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _see_private(folder)
            self._lock = lock_store(folder / FILE)
        except OSError as error:
            told = f"expected a folder to write to, {folder} is none: {error.strerror}"
            raise refused(f"[service] dir: {told}", error) from None
        except (ValueError, StoreError) as error:
            raise refused(f"[service] dir: {error}", error) from None
        self.path = folder.resolve()
        self._mark = lock_mark(self.path / FILE)

    def see(self) -> None:
        """Make sure that the folder is where it was.

        Raises:
            FileNotFoundError: it was moved or removed, or another is there now.
        """
        if lock_mark(self.path / FILE) != self._mark:
            told = (
                f"the folder of this service, process {os.getpid()}, was moved or removed: expected it at {self.path}"
            )
            raise FileNotFoundError(f"{told}; put it back there, or end that process and start it in another folder")

    def leave(self) -> None:
        """Let another process have it."""
        os.close(self._lock)


def _see_private(folder: Path) -> None:
    """Raise ConfigError for a folder that is another account's, or that others may enter."""
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & OTHERS:
        expected = "expected a folder of this account's own that nobody else may enter"
        got = f"got mode {stat.S_IMODE(found.st_mode):o}, owner {found.st_uid}"
        raise ConfigError(f"[service] dir: {expected}, {got}; chmod 700 {folder}, or name another one")
