"""The processes of one contender: started with their output in files, told apart by side, and none left behind."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import psutil

Side = Literal["server", "client", "other"]

MARK = "PROTOEDGE_PEER"
"""An environment variable that a started process hands on to all that it starts; it ends in the side."""

POLL_S = 0.02
END_S = 10.0
"""How long processes that were killed may take to be gone."""


class PeerError(Exception):
    """A contender that did not come so far: what was expected of it, and the last lines that it said."""

    def __init__(self, what: str, said: str = "") -> None:
        super().__init__(f"{what}: {said}" if said else what)
        self.what = what


class Processes:
    """All that is started for one contender, in a folder."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._mark = uuid.uuid4().hex
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._marks: dict[psutil.Process, str] = {}

    def start(self, side: Side, name: str, command: Sequence[str | Path]) -> None:
        """Start a command under a name, under which an earlier one may have ended."""
        own = {**os.environ, **self._environment, MARK: f"{self._mark}-{side}"}
        with self._log(name).open("ab") as log:
            self._started[name] = subprocess.Popen(
                list(map(str, command)), cwd=self._folder, env=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def said(self, name: str) -> str:
        """Return what it wrote so far, and earlier ones of the name."""
        return self._log(name).read_text(errors="replace")

    def has_ended(self, name: str) -> bool:
        """Say whether it runs no more."""
        return self._started[name].poll() is not None

    def kill(self, name: str) -> None:
        """End it at once, and nothing that it started."""
        self._started[name].kill()
        self._started[name].wait(END_S)

    def of(self, side: Side | Literal[""] = "") -> Iterator[psutil.Process]:
        """Yield those of a side, or all, that run now, with whatever they started."""
        for process in psutil.process_iter():
            mark = self._mark_of(process)
            if mark.startswith(self._mark) and mark.endswith(side):
                yield process

    def _mark_of(self, process: psutil.Process) -> str:
        """Return what a process has been marked with; each is asked once, as asking slows those that are measured."""
        if process not in self._marks:
            with contextlib.suppress(psutil.Error):
                self._marks[process] = process.environ().get(MARK, "")
        return self._marks.get(process, "")

    def until(self, is_so: Callable[[], object], what: str, within_s: float, server: str = "") -> None:
        """Wait for something; `PeerError` if it does not come in time, or if the server ends that is named."""
        give_up_at = time.monotonic() + within_s
        while not is_so():
            if server and self.has_ended(server) and not is_so():
                raise PeerError(f"expected {what}, but the {server} ended", self._last_lines(server))
            if time.monotonic() > give_up_at:
                raise PeerError(f"expected {what} within {within_s:g} s", self._last_lines(server))
            time.sleep(POLL_S)

    def close(self) -> None:
        """End all of them, and whatever they started."""
        give_up_at = time.monotonic() + END_S
        while (left := list(self.of())) and time.monotonic() < give_up_at:
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=1.0)
        for started in self._started.values():
            started.wait(END_S)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _last_lines(self, name: str) -> str:
        return self.said(name)[-600:] if name else ""


def free_ports(num: int) -> list[int]:
    """Return so many ports of this machine that nobody listened at just now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(num)]
        return [each.getsockname()[1] for each in sockets]


def accepts(port: int) -> bool:
    """Say whether somebody listens at a port of this machine."""
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        return True
    return False
