"""Which process has a run, or a service: the one that holds the lock of its file (`schema.lock_store`)."""

from __future__ import annotations

from pathlib import Path

import psutil

from coordinator.store.schema import lock_path


def holder(path: Path) -> psutil.Process | None:
    """Return the process that has a store or a queue open, None if there is none on this machine."""
    lock = lock_path(path)
    try:
        process = psutil.Process(int(lock.read_text()))
        if process.status() == psutil.STATUS_ZOMBIE:
            return None  # killed, and not yet taken note of by its parent
        is_open = str(lock.resolve()) in {file.path for file in process.open_files()}
    except psutil.AccessDenied:
        return process  # of another account, whose files are not ours to see
    except (OSError, ValueError, psutil.Error):
        return None
    return process if is_open else None
