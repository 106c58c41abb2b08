"""Which process has a run: the one that holds the lock of its store (`schema.lock_store`)."""

from __future__ import annotations

from pathlib import Path

import psutil

from coordinator.run_folder import RunFolder


def holder(folder: RunFolder) -> psutil.Process | None:
    """Return the process that has a run's store open, None if there is none on this machine."""
    lock = Path(f"{folder.store_path}.lock")
    try:
        process = psutil.Process(int(lock.read_text()))
        is_open = str(lock.resolve()) in {file.path for file in process.open_files()}
    except psutil.AccessDenied:
        return process  # of another account, whose files are not ours to see
    except (OSError, ValueError, psutil.Error):
        return None
    return process if is_open else None
