"""Real daemons for tests: started with their output in files, watched with bounded waits, and none left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

WAIT_S = 20.0
"""How long anything may take that has no bound of its own."""

END_S = 5.0
"""How long a process may take to end, by contract."""

MARK = "PROTOEDGE_TEST"
"""An environment variable that a started process hands on to all that it starts."""

T = TypeVar("T")


def until(found: Callable[[], T | None], what: str, within_s: float = WAIT_S) -> T:
    """Return what `found` returns as soon as that is true; an assertion fails if it never is."""
    give_up_at = time.monotonic() + within_s
    while not (value := found()):
        assert time.monotonic() < give_up_at, f"after {within_s:g} s still not: {what}"
        time.sleep(0.01)
    return value


def booked(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's metrics, in order."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


class Process:
    """One daemon that was started."""

    def __init__(self, command: Sequence[str], folder: Path, name: str, environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self._out.open("ab") as out, self._err.open("ab") as err:
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-m", *command],
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.poll() is not None

    def poll(self) -> int | None:
        """Return its exit code, None while it runs; the negative number of the signal if it was killed."""
        return self._popen.poll()

    def forget(self) -> None:
        """Drop what it has said, so that the next one of the name is not taken for it."""
        for path in (self._out, self._err):
            path.write_text("")

    @property
    def printed(self) -> list[str]:
        """The lines on standard output, from this process and earlier ones of the name."""
        return self._out.read_text().splitlines()

    @property
    def said(self) -> str:
        """All that it said on standard error, and earlier ones of the name."""
        return self._err.read_text()

    def hear(self, pattern: str, times: int = 1, within_s: float = WAIT_S) -> re.Match[str]:
        """Wait until a pattern has come up so many times on either output, and return the last of them."""

        def found() -> re.Match[str] | None:
            ended = self.ended
            matches = list(re.finditer(pattern, self.said + self._out.read_text()))
            assert len(matches) >= times or not ended, f"{self.name} has ended without {pattern!r}:\n{self.said}"
            return matches[-1] if len(matches) >= times else None

        return until(found, f"{self.name} says {times} x {pattern!r}", within_s)

    def wait(self, within_s: float = WAIT_S) -> int:
        """Wait until it ends, and return its exit code."""
        try:
            return self._popen.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {within_s:g} s:\n{self.said}") from None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._popen.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal and return its exit code, which must come within the time of the contract."""
        self.send(number)
        return self.wait(END_S)

    def kill(self) -> None:
        """End it at once."""
        self._popen.kill()
        self._popen.wait(END_S)

    def child(self, module: str) -> psutil.Process:
        """Return its child that runs a module."""
        return until(lambda: self._child(module), f"{self.name} has a child {module}")

    def _child(self, module: str) -> psutil.Process | None:
        for child in psutil.Process(self.pid).children():
            try:
                if module in child.cmdline():
                    return child
            except psutil.Error:
                continue
        return None


class Coordinator(Process):
    """A coordinator that was started."""

    @property
    def folder(self) -> Path:
        """The run folder that it printed."""
        self.hear("run folder: .*\n")
        return self._out.parent / self.printed[0].removeprefix("run folder: ")

    @property
    def address(self) -> str:
        """Where it listens."""
        return self.hear(r"listening on (\S+)\n")[1]

    @property
    def summary(self) -> dict[str, Any]:
        """The summary that it wrote."""
        content: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return content

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """The lines of closed rounds, from the store."""
        return [json.loads(line) for (line,) in self.stored("SELECT line FROM rounds ORDER BY round")]

    def num_stored(self, exchange: int) -> int:
        """Return how many updates of an open exchange are durable."""
        ((count,),) = self.stored(f"SELECT count(*) FROM updates WHERE exchange = {exchange}")
        assert isinstance(count, int)
        return count

    def stored(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows that a query finds in the store."""
        with contextlib.closing(sqlite3.connect(f"file:{self.folder}/store.sqlite?mode=ro", uri=True)) as store:
            return store.execute(query).fetchall()


class Processes:
    """All processes of one test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = uuid.uuid4().hex
        self.environment: dict[str, str] = {MARK: self._mark}
        self._started: list[Process] = []

    def coordinator(self, *arguments: str | Path, name: str = "coordinator") -> Coordinator:
        """Start `coordinator ARGUMENTS`."""
        return self._start(Coordinator, "coordinator", arguments, name)

    def client(self, config: Path, *arguments: str, name: str = "") -> Process:
        """Start `edge-client run` with a config."""
        return self._start(Process, "edge_client", ["run", "--config", config, *arguments], name or config.stem)

    def close(self) -> None:
        """End what still runs; an assertion fails if any process that came from these outlives them."""
        for process in self._started:
            process.kill()
        try:
            self.see_none_left()
        finally:
            for process in self.left():
                process.kill()

    def see_none_left(self) -> None:
        """Wait until all of these and all that came from them are gone, within the time of the contract."""
        give_up_at = time.monotonic() + END_S
        while left := self.left():
            assert time.monotonic() < give_up_at, f"left behind: {[process.cmdline() for process in left]}"
            time.sleep(0.02)

    def left(self) -> list[psutil.Process]:
        """Return those that run, and all that came from them."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            is_over = process.status() == psutil.STATUS_ZOMBIE
            return not is_over and bool(process.environ().get(MARK) == self._mark)
        except psutil.Error:
            return False

    def _start(self, kind: type[ProcessT], package: str, arguments: Sequence[str | Path], name: str) -> ProcessT:
        process = kind([package, *map(str, arguments)], self._folder, name, self.environment)
        self._started.append(process)
        return process


ProcessT = TypeVar("ProcessT", bound=Process)
