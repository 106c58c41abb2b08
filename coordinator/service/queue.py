"""The runs that were submitted, in order: a file that is replaced whole, so that a kill loses none of them.

    queued -> running -> over        `resume` puts one that is over back to queued
    queued -> over (cancelled)

What a run needs beside its place here stands in its run folder.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import psutil

from coordinator.service.orders import SOCKET
from coordinator.store.run_folder import RunFolder, read_json, write_whole
from coordinator.store.schema import lock_path
from models.spec import ConfigError, nearest
from wire.disk import advised, lacks_space

FILE = "queue.json"

RUNS = "runs"
"""In a service's folder: where its run folders are."""


ANEW = "; without the file a queue is begun anew, and the runs in the folder are told"

MOST_RUNS = 200
"""So many are listed or named at once, the last ones."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run's place: `outcome` is how one that is over ended, `reason` why, for people."""

    run_id: str
    state: Literal["queued", "running", "over"] = "queued"
    outcome: str = ""
    reason: str = ""


class UnwrittenError(OSError):
    """The queue cannot be written; the text says why."""

    def __init__(self, text: str, cause: OSError) -> None:
        super().__init__(text)
        self.errno = cause.errno


class Queue:
    """All of them by id, the first submitted first; what was put is on disk, what is held may not be yet."""

    def __init__(self, folder: Path, see: Callable[[], None] = lambda: None) -> None:
        """Read the file in a service's folder; none is an empty queue.

        `see` raises OSError where nothing is to be written, as the folder is not that of the service any more.

        Raises:
            ConfigError: it is no queue.
        """
        self.folder = folder
        self._see = see
        self._path = folder / FILE
        self._entries = {entry.run_id: entry for entry in self._read()}

    @property
    def entries(self) -> list[Entry]:
        """All of them, in order."""
        return list(self._entries.values())

    def get(self, run_id: str) -> Entry | None:
        """Return the entry of a run, None if there is no such run."""
        return self._entries.get(run_id)

    def find(self, run_id: str) -> Entry:
        """Return the entry of a run.

        Raises:
            ConfigError: there is no such run; the text names the nearest one, or those that there are.
        """
        entry = self.get(run_id)
        if entry is None:
            raise ConfigError(f"unknown run {run_id[:80]!r}; {nearest(run_id, list(self._entries)[-MOST_RUNS:])}")
        return entry

    def unknown_in(self, runs: Path) -> list[str]:
        """Return the ids of runs whose folders are there and that nothing is known of, as the file was lost."""
        folders = sorted(path.parent.name for path in runs.glob("*/config.toml"))
        return [run_id for run_id in folders if run_id not in self._entries]

    def put(self, entry: Entry) -> None:
        """Take up a run at the end, or replace what is known of it; one that is queued anew goes to the end.

        Raises:
            OSError: it cannot be written; nothing has changed.
        """
        others = self._entries if entry.state != "queued" else self._without(entry.run_id)
        entries = {**others, entry.run_id: entry}
        try:
            self._write(entries)
        except OSError as error:
            raise UnwrittenError(f"{error}; nothing has changed", error) from error
        self._entries = entries

    def hold(self, entry: Entry) -> None:
        """Replace what is known of a run here alone, as it has happened: `write` or the next `put` has it on disk."""
        self._entries = {**self._entries, entry.run_id: entry}

    def write(self) -> None:
        """Have on disk what is held.

        Raises:
            OSError: it cannot be written.
        """
        self._write(self._entries)

    def _write(self, entries: dict[str, Entry]) -> None:
        try:
            self._see()
            write_whole(self._path, [msgspec.json.format(msgspec.json.encode(list(entries.values())), indent=1), b"\n"])
        except OSError as error:
            told = advised(f"{self._path} cannot be written: {error.strerror or error}", lacks_space(error))
            raise UnwrittenError(told, error) from error

    def _without(self, run_id: str) -> dict[str, Entry]:
        return {other: entry for other, entry in self._entries.items() if other != run_id}

    def _read(self) -> list[Entry]:
        try:
            return read_json(self._path, list[Entry], "the queue of a service", ANEW)
        except FileNotFoundError:
            return []


def queue_of(run: RunFolder) -> Queue | None:
    """Return the queue of the service that has a run, at work or not; None if the run is of no service."""
    runs = run.path.resolve().parent
    if runs.name != RUNS:
        return None
    try:
        queue = Queue(runs.parent)
    except ConfigError:  # some other file that has this name
        return None
    return queue if queue.get(run.run_id) is not None else None


def service_of(process: psutil.Process) -> Path | None:
    """Return the folder of the service that a process is; None if it is none, or of another account.

    It has the lock of its queue open or, where that file was removed, its socket.
    """
    lock = lock_path(Path(FILE)).name
    with contextlib.suppress(psutil.Error):
        for file in process.open_files():
            if Path(file.path).name == lock:
                return Path(file.path).parent
        for link in psutil.net_connections("unix"):
            if link.pid == process.pid and Path(str(link.laddr)).name == SOCKET:
                return Path(process.cwd(), str(link.laddr)).parent
    return None


def service_goes_on(service: Path) -> str:
    """Say that a service which does not run now goes on with a run of its queue."""
    return f"its service in {service}, started again, goes on with it"
