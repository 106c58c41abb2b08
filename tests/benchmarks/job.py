"""A run as a subprocess, and what its processes take while it is at work."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil

PLUGINS = Path(__file__).with_name("plugins")

TIMEOUT_S = 600.0
"""No run of a benchmark takes longer, unless it says so."""

NOOP_PER_CLASS = 10
"""Samples of each class that a client of `noop_settings` has."""

KINDS = ("coordinator", "aggregator", "client", "trainer")


class JobError(Exception):
    """A run that did not end as it should; the text holds its last lines."""


@dataclass(frozen=True)
class Job:
    """A run that is over."""

    folder: Path
    summary: dict[str, Any]
    wall_s: float

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """The lines of closed rounds, from the store, which must be on disk."""
        with contextlib.closing(sqlite3.connect(f"file:{self.folder}/store.sqlite?mode=ro", uri=True)) as store:
            return [json.loads(line) for (line,) in store.execute("SELECT line FROM rounds ORDER BY round")]

    def rounds_closed_at(self) -> list[tuple[float, float]]:
        """Return when each round was closed, in seconds since 1970, and how long it took."""
        with contextlib.closing(sqlite3.connect(f"file:{self.folder}/store.sqlite?mode=ro", uri=True)) as store:
            rows = store.execute("SELECT started_s, json_extract(line, '$.round_s') FROM rounds ORDER BY round")
            return [(at, round_s) for at, round_s in rows]


class RunningJob:
    """A run at work."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self.folder = folder
        self._num_read = self._num_closed = 0

    def rounds_closed(self) -> int:
        """Return how many rounds are over so far; what has been read is not read again, which would slow the run."""
        metrics = self.folder / "metrics.jsonl"
        if metrics.exists():
            with metrics.open("rb") as file:
                file.seek(self._num_read)
                whole, _, _ = file.read().rpartition(b"\n")
            self._num_read += len(whole) + bool(whole)
            self._num_closed += whole.count(b'"kind":"exchange"')
        return self._num_closed

    @property
    def address(self) -> str:
        """Where its coordinator listens, as host:port; empty while it does not."""
        log = self.folder / "log.txt"
        lines = log.read_text().splitlines() if log.exists() else []
        return next((line.split()[-1] for line in lines if "listening on" in line), "")

    def processes(self) -> Iterator[tuple[str, psutil.Process]]:
        """Yield the kind of every process of the run, and the process."""
        main = psutil.Process(self._process.pid)
        for process in (main, *main.children(recursive=True)):
            try:
                yield kind_of(process.cmdline()), process
            except psutil.Error:
                continue


def kind_of(command: Sequence[str]) -> str:
    """Return the kind of a process by its command."""
    marks = {"coordinator.aggregator": "aggregator", "edge_client.trainer": "trainer", "edge_client": "client"}
    return next((kind for mark, kind in marks.items() if mark in command), "coordinator")


def run(
    settings: Sequence[str],
    out: Path,
    watch: Callable[[RunningJob], None] | None = None,
    command: Literal["loopback", "serve", "simulate"] = "loopback",
    timeout_s: float = TIMEOUT_S,
    python: Path | str = sys.executable,
    more: Sequence[str] = (),
) -> Job:
    """Run `coordinator loopback`, or another command, to its end.

    Args:
        settings: each a `table.key=value`.
        out: where the run folder is made.
        watch: called now and then while the run is at work.
        command: which one.
        timeout_s: when it is ended.
        python: the interpreter, where it is to be another one than ours.
        more: further words of the command.

    Raises:
        JobError: the run failed.
    """
    started = time.monotonic()
    words = [str(python), "-I", "-m", "coordinator", command, "--set", f"run.dir={out}", *more]
    words += ["--config", str(PLUGINS / "noop.toml")] if command == "serve" else []
    words += [part for setting in settings for part in ("--set", setting)]
    log = out / f"{command}.log"
    with log.open("w") as errors, _started(words, errors) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().partition(": ")[2].strip())
        running = RunningJob(process, folder)
        while process.poll() is None and time.monotonic() - started < timeout_s:
            if watch is not None:
                watch(running)
            time.sleep(0.05)
        wall_s = time.monotonic() - started
    summary = folder / "summary.json"
    if process.returncode or not summary.exists():
        raise JobError(f"{' '.join(words)} ended with {process.returncode}:\n{log.read_text()[-2000:]}")
    return Job(folder, json.loads(summary.read_text()), wall_s)


def noop_settings(
    out: Path, num_clients: int, num_rounds: int, store: str, num_classes: int = 10, feature_dim: int = 50
) -> list[str]:
    """Return the settings of a run whose clients compute nothing, on data that is made here."""
    data = out / "noop.npz"
    labels = np.arange(num_classes * num_clients * NOOP_PER_CLASS) % num_classes
    np.savez(data, x=np.zeros((len(labels), 4), np.float32), y=labels)
    return [
        "method.name=noop:METHOD",
        f"model.feature_dim={feature_dim}",
        "data.dataset=npz",
        f"data.root={data}",
        "data.partition=iid",
        f"data.num_clients={num_clients}",
        f"run.num_rounds={num_rounds}",
        f"run.store={store}",
        "round.min_clients=1",
    ]


@contextmanager
def _started(command: Sequence[str], errors: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, cwd=PLUGINS, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
