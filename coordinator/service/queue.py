"""The runs that were submitted, in order: a file that is replaced whole, so that a kill loses none of them.

    queued -> running -> over        `resume` puts one that is over back to queued
    queued -> over (cancelled)

What a run needs beside its place here stands in its run folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from coordinator.store.run_folder import RunFolder, read_json, write_whole
from models.spec import ConfigError, nearest

FILE = "queue.json"

RUNS = "runs"
"""In a service's folder: where its run folders are."""


MOST_RUNS = 200
"""So many are listed or named at once, the last ones."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run's place: `outcome` is how one that is over ended, `reason` why, for people."""

    run_id: str
    state: Literal["queued", "running", "over"] = "queued"
    outcome: str = ""
    reason: str = ""


class Queue:
    """All of them by id, the first submitted first; what was put is on disk."""

    def __init__(self, folder: Path) -> None:
        """Read the file in a service's folder; none is an empty queue.

        Raises:
            ConfigError: it is no queue.
        """
        self.folder = folder
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

    def put(self, entry: Entry) -> None:
        """Take up a run at the end, or replace what is known of it; one that is queued anew goes to the end.

        Raises:
            OSError: it cannot be written; nothing has changed.
        """
        others = self._entries if entry.state != "queued" else self._without(entry.run_id)
        entries = {**others, entry.run_id: entry}
        write_whole(self._path, [msgspec.json.format(msgspec.json.encode(list(entries.values())), indent=1), b"\n"])
        self._entries = entries

    def _without(self, run_id: str) -> dict[str, Entry]:
        return {other: entry for other, entry in self._entries.items() if other != run_id}

    def _read(self) -> list[Entry]:
        try:
            return read_json(self._path, list[Entry], "the queue of a service")
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


def service_goes_on(service: Path) -> str:
    """Say that a service which does not run now goes on with a run of its queue."""
    return f"its service in {service}, started again, goes on with it"
