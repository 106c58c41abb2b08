"""Runs of a standing coordinator, from Python on its machine: submit them, watch them, and compare what came out.

    from coordinator import client_api

    runs = [client_api.submit("run.toml", [f"method.name={name}"]) for name in ("fedavg", "fedproto")]
    for run in runs:
        for event in client_api.watch(run):
            print(event)
    print(client_api.results(runs))

A service is known by its folder (`[service] dir`): by default what PROTOEDGE_SERVICE names, or `service`.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from coordinator.run_folder import RunFolder
from coordinator.service.orders import (
    ANSWERS,
    LENGTH,
    SOCKET,
    Cancel,
    Done,
    ListRuns,
    Refused,
    Resume,
    Runs,
    RunState,
    Stop,
    Submit,
    from_bytes,
    length_of,
    to_bytes,
)
from coordinator.table import Row, aligned
from coordinator.tally import RoundLine, read_line
from coordinator.units import show_accuracy, show_bytes
from models.settings import read_toml, source_of
from models.spec import ConfigError
from wire.errors import EncodeError, WireError
from wire.messages import Message

ANSWER_S = 60.0
"""How long a service may take to answer: it may have to look through the samples of a run that is submitted."""

POLL_S = 0.2

AnswerT = TypeVar("AnswerT", bound=Message)

Event = RunState | RoundLine
"""What happens to a run: it stands differently, or a round has closed."""


class Result(NamedTuple):
    """What came out of one run; figures are None where they are not known, as before its end.

    `fault` says what is wrong with a run folder that cannot be read, where nothing is known.
    """

    run_id: str
    method: str
    seed: int | None
    outcome: str
    rounds: int | None = None
    accuracy: float | None = None
    best_accuracy: float | None = None
    up_bytes: int | None = None
    down_bytes: int | None = None
    fault: str = ""


class Results(list[Result]):
    """The results of several runs; as text, a table."""

    def __str__(self) -> str:
        """Return a line for each run, below a header, and then what is wrong with any."""
        if not self:
            return "no runs"
        header = Row("run", ["method", "seed", "outcome", "rounds", "last", "best", "up", "down"])
        faults = [f"{result.run_id}: {result.fault}" for result in self if result.fault]
        return "\n".join([*aligned(header, [_row(result) for result in self], sys.maxsize), *faults])


def default_service() -> Path:
    """Return the folder of the service that is meant where none is named."""
    return Path(os.environ.get("PROTOEDGE_SERVICE") or "service")


def submit(config: Path | str | None, settings: Sequence[str] = (), service: Path | None = None) -> str:
    """Queue a run and return its id.

    Args:
        config: its `run.toml`, None for all defaults.
        settings: each `table.key=value` over it.
        service: the folder of the service.

    Raises:
        ConfigError: the settings are none, as `coordinator check-config` says, or there is no service.
    """
    path = Path(config) if config is not None else None
    tables = read_toml(path) if path is not None else {}
    return _ask(Submit(tables, list(settings), source_of(path, settings)), service, Done).run_id


def runs(service: Path | None = None) -> list[RunState]:
    """Return where the last runs stand, the first submitted first."""
    return _ask(ListRuns(), service, Runs).runs


def state(run_id: str, service: Path | None = None) -> RunState:
    """Return where a run stands.

    Raises:
        ConfigError: there is no such run, or no service.
    """
    return _ask(ListRuns(run_id), service, Runs).runs[0]


def stop(run_id: str, service: Path | None = None) -> str:
    """End a run that goes on, so that it can be resumed; return its outcome."""
    return _ask(Stop(run_id), service, Done).told


def resume(run_id: str, service: Path | None = None) -> str:
    """Queue a run that was stopped, cancelled or has failed once more; return what became of it."""
    return _ask(Resume(run_id), service, Done).told


def cancel(run_id: str, service: Path | None = None) -> str:
    """Take a run out of the queue, or end one that goes on; return what became of it."""
    return _ask(Cancel(run_id), service, Done).told


def watch(run_id: str, service: Path | None = None) -> Iterator[Event]:
    """Yield what happens to a run until it is over: its rounds from the first on, and how it stands at each change."""
    now = state(run_id, service)
    yield now
    lines = _Lines(RunFolder(Path(now.folder)).metrics_path)
    while True:
        before, now = now, state(run_id, service)
        yield from (line for line in map(read_line, lines.read()) if isinstance(line, RoundLine))
        if now != before:
            yield now
        if now.state == "over":
            return
        time.sleep(POLL_S)


def results(run_ids: Sequence[str], service: Path | None = None) -> Results:
    """Return what came out of runs, over or not, in this order; one that cannot be read costs the others nothing."""
    return Results(_result(state(run_id, service)) for run_id in run_ids)


class _Lines:
    """What comes at the end of a file, which need not be there yet and may be written anew with the same lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def read(self) -> list[str]:
        """Return the whole lines that have come since the last time."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                content = file.read()
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        return whole.decode().splitlines()


def _result(run: RunState) -> Result:
    try:
        folder = RunFolder.open(Path(run.folder))
        summary, seed = folder.read_summary(), folder.read_tables()["run"]["seed"]
    except ConfigError as error:
        return Result(run.run_id, run.method, None, "unreadable", fault=str(error))
    accuracy = summary.get("accuracy", {})
    up, down = summary.get("uplink", {}), summary.get("downlink", {})
    return Result(
        run.run_id,
        run.method,
        seed,
        run.outcome or run.state,
        summary.get("rounds_completed"),
        accuracy.get("last"),
        accuracy.get("best"),
        up.get("encoded_bytes"),
        down.get("encoded_bytes"),
    )


def _row(result: Result) -> Row:
    accuracies = ["n/a" if each is None else show_accuracy(each) for each in (result.accuracy, result.best_accuracy)]
    sizes = ["n/a" if each is None else show_bytes(each) for each in (result.up_bytes, result.down_bytes)]
    rounds = "n/a" if result.rounds is None else str(result.rounds)
    seed = "n/a" if result.seed is None else str(result.seed)
    return Row(result.run_id, [result.method, seed, result.outcome, rounds, *accuracies, *sizes])


def _ask(order: Message, service: Path | None, kind: type[AnswerT]) -> AnswerT:
    """Return a service's answer to an order, of this kind; what it refuses is a `ConfigError`."""
    path = (service or default_service()) / SOCKET
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as desk:
            desk.settimeout(ANSWER_S)
            desk.connect(str(path))
            desk.sendall(to_bytes(order))
            answer = from_bytes(_read(desk, length_of(_read(desk, LENGTH.size))), ANSWERS)
    except EncodeError as error:
        raise ConfigError(f"{error}; expected settings that fit into an order") from None
    except (OSError, WireError) as error:
        expected = "expected a service that runs there (coordinator serve), or one that PROTOEDGE_SERVICE names"
        raise ConfigError(f"{path}: {expected}: {error}") from None
    if isinstance(answer, Refused):
        raise ConfigError(answer.reason)
    assert isinstance(answer, kind)
    return answer


def _read(desk: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        piece = desk.recv(size - len(content))
        if not piece:
            raise ConnectionError("the service has ended")
        content += piece
    return content
