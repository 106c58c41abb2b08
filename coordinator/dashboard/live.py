"""A run that goes on, read again when its files have changed, once for all who look at it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

from coordinator.report.page import live_body
from coordinator.report.reading import Run, read_run
from coordinator.status.reading import read_status
from coordinator.store.holder import last_holder
from coordinator.store.run_folder import RunFolder
from coordinator.whereabouts import IN_WORDS, whereabouts
from models.spec import ConfigError
from wire.sockets.log import last_lines

CHECK_EVERY_S = 1.0
"""How often it is looked whether something has changed."""

REST_FACTOR = 20.0
"""Reading takes at most one part in so many of the time, however long the run is."""

LOG_LINES = 15
"""So much of the log's end is shown."""


class LiveRun:
    """What is shown of a run."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._lock = asyncio.Lock()
        self._version: str | None = None
        self._body = ""
        self._took_s = 0.0
        self._run: Run | None = None
        self.left = asyncio.Event()
        """Is set when the process that had the page served has left it, however it did."""

    async def body(self) -> str:
        """Return the page's content as of now.

        Raises:
            ConfigError: the run cannot be read.
        """
        await self._refresh()
        return self._body

    async def run(self) -> Run:
        """Return the run's figures as of now.

        Raises:
            ConfigError: the run cannot be read.
        """
        await self._refresh()
        assert self._run is not None
        return self._run

    async def changes(self) -> AsyncIterator[str]:
        """Yield `change` whenever there is something new, at first too, and at the end where the run is, in words."""
        seen: str | None = None
        while not self.left.is_set():
            if seen != (seen := version_of(self._folder)):
                yield "change"
            try:
                await asyncio.wait_for(self.left.wait(), max(CHECK_EVERY_S, REST_FACTOR * self._took_s))
            except asyncio.TimeoutError:
                continue
        if told := await asyncio.to_thread(self._last_word):
            yield told

    async def _refresh(self) -> None:
        async with self._lock:
            version = f"{version_of(self._folder)} {self.left.is_set()}"
            if version != self._version:
                began_at = time.monotonic()
                self._run, self._body = await asyncio.to_thread(self._read)
                self._version, self._took_s = version, time.monotonic() - began_at

    def _last_word(self) -> str:
        """Return where the run is that its process has left, nothing if that is only about to leave."""
        try:
            state = whereabouts(self._folder).state
        except ConfigError as error:
            return str(error)
        return IN_WORDS[state] if state != "running" else ""

    def _read(self) -> tuple[Run, str]:
        run = read_run(self._folder.path)
        return run, live_body(run, read_status(self._folder.path), last_lines(self._folder.log_path, LOG_LINES))


def version_of(folder: RunFolder) -> str:
    """Return a text that changes when the run's files do, and when its process is gone."""
    paths = (folder.store_path, Path(f"{folder.store_path}-wal"), folder.summary_path, folder.log_path)
    process = last_holder(folder.store_path)  # whose end by a kill leaves the files as they are
    changed = [f"{found.st_mtime_ns}:{found.st_size}" for path in paths if (found := _stat(path))]
    return " ".join([*changed, str(process and process.pid)])


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
