"""Which process has a run, or a service: the one that holds the lock of its file (`schema.lock_store`)."""

from __future__ import annotations

from pathlib import Path

import psutil

from coordinator.store.schema import lock_path


def holder(path: Path) -> psutil.Process | None:
    """Return the process that has a store or a queue open, None if there is none on this machine."""
    process, lock = last_holder(path), lock_path(path)
    try:
        is_open = process is not None and str(lock.resolve()) in {file.path for file in process.open_files()}
    except psutil.AccessDenied:
        return process  # of another account, whose files are not ours to see
    except (OSError, psutil.Error):
        return None
    return process if is_open else None


def last_holder(path: Path) -> psutil.Process | None:
    """Return the process that had it open last, None if it is gone; by now it may have left it, or be another one."""
    try:
        process = psutil.Process(int(lock_path(path).read_text()))
        is_gone = process.status() == psutil.STATUS_ZOMBIE  # killed, and not yet taken note of by its parent
    except (OSError, ValueError, psutil.Error):
        return None
    return None if is_gone else process
