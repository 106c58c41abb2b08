"""What earlier runs left in a client's folder: each run's states in a folder of its own, and the run constants.

They are kept, so that a run can go on whenever it is resumed and its model be looked at, until they are too old or, the
oldest first, too many. Both share one allowance, of which run constants, small and fetched once, have the first claim.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

from edge_client.config import ClientSection
from edge_client.limits import MEBIBYTE
from models.spec import ConfigError

DAY_S = 24 * 3600.0

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def run_folder(folder: Path, run_id: str) -> Path:
    """Return the folder of a run in a client's folder; it is there, and of now.

    Raises:
        ConfigError: the coordinator's run id cannot name a folder.
    """
    if not _RUN_ID.fullmatch(run_id):
        raise ConfigError(f"the coordinator's run: run_id = {run_id[:80]!r}: expected letters, digits and . _ - alone")
    path = folder / "runs" / run_id
    path.mkdir(parents=True, exist_ok=True)
    os.utime(path)
    return path


def runs_left(folder: Path) -> list[Path]:
    """Return the folders of all runs in a client's folder."""
    return list((folder / "runs").glob("*"))


def constants_left(folder: Path) -> list[Path]:
    """Return the files of all run constants in a client's folder."""
    return list((folder / "constants").glob("*"))


def prune_runs(folder: Path, keep: ClientSection, now: float, current: Path) -> None:
    """Remove runs until the allowance holds for them, less what run constants take of it; the current one stays."""
    taken = sum(_size_of(path) for path in constants_left(folder)) / MEBIBYTE
    prune(runs_left(folder), keep.keep_days, keep.keep_mib - taken, now, {current})


def prune_constants(folder: Path, keep: ClientSection, now: float) -> None:
    """Remove run constants until the allowance holds for them; the coordinator goes by those that a hello tells of."""
    prune(constants_left(folder), keep.keep_days, keep.keep_mib, now)


def prune(left: Iterable[Path], keep_days: float, keep_mib: float, now: float, spared: Collection[Path] = ()) -> None:
    """Remove what is older than so many days, and the oldest until the rest takes so much; spare what is in use."""
    kept_bytes = 0
    spared = set(spared)
    for changed_at, path in sorted(((path.stat().st_mtime, path) for path in left), reverse=True):
        kept_bytes += _size_of(path)
        is_over = changed_at < now - keep_days * DAY_S or kept_bytes > keep_mib * MEBIBYTE
        if is_over and path not in spared:
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a folder or a file; what cannot be removed is tried again the next time."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _size_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
