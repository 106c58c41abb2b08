"""Which process has a run, or a service: the one that holds the lock of its file (`schema.lock_store`)."""

from __future__ import annotations

from pathlib import Path

import psutil

from coordinator.store.schema import lock_mark, lock_path

LOCKS = Path("/proc/locks")
"""Where Linux tells everybody who has which file locked."""


def holder(path: Path) -> psutil.Process | None:
    """Return the process that has a store or a queue open, None if there is none on this machine."""
    process, lock = last_holder(path), lock_path(path)
    try:
        is_open = process is not None and str(lock.resolve()) in {file.path for file in process.open_files()}
    except psutil.AccessDenied:  # of another account, whose files are not ours to see
        is_open = process is not None and _has_locked(process, path)
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


def _has_locked(process: psutil.Process, path: Path) -> bool:
    """Say whether a process holds the lock, believing that it does where the system does not tell."""
    try:
        mark, lines = lock_mark(path), LOCKS.read_text().splitlines()
    except OSError:
        return True
    return mark is not None and any(_is_of(line.split(), process.pid, mark[1]) for line in lines)


def _is_of(words: list[str], pid: int, inode: int) -> bool:
    """Say whether a lock is of this process and file: `1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF`.

    The device is not compared: file systems with several volumes have others there than `stat` tells.
    """
    return words[1:2] == ["FLOCK"] and words[4:5] == [str(pid)] and words[5].endswith(f":{inode}")
