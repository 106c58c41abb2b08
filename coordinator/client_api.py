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
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from coordinator.metrics.tally import RoundLine
from coordinator.metrics.written_lines import whole_line
from coordinator.results import Result, Results, read_result
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
from coordinator.service.queue import FILE
from coordinator.store.holder import holder
from coordinator.store.run_folder import RunFolder
from models.settings import read_toml, source_of
from models.spec import ConfigError, unusable
from wire.errors import EncodeError, WireError
from wire.messages import Message

__all__ = [
    "Event",
    "Result",
    "Results",
    "cancel",
    "default_service",
    "is_at_work",
    "results",
    "resume",
    "runs",
    "state",
    "stop",
    "submit",
    "watch",
]

ANSWER_S = 25.0
"""How long a service may take to answer: it may have to look through the samples of a run that is submitted."""

POLL_S = 0.2

AnswerT = TypeVar("AnswerT", bound=Message)

Event = RunState | RoundLine
"""What happens to a run: it stands differently, or a round has closed."""


def default_service() -> Path:
    """Return the folder of the service that is meant where none is named."""
    return Path(os.environ.get("PROTOEDGE_SERVICE") or "service")


def is_at_work(service: Path) -> bool:
    """Say whether the process of a service is there."""
    return (service / SOCKET).is_socket() and holder(service / FILE) is not None


def submit(config: Path | str | None, settings: Sequence[str] = (), service: Path | None = None) -> str:
    """Queue a run and return its id.

    Args:
        config: its `run.toml`, None for all defaults.
        settings: each `table.key=value` over it.
        service: the folder of the service.

    Raises:
        ConfigError: the settings are none, as `coordinator check-config` says, or there is no service; `NoSpaceError`
            where the service's disk is full.
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
        yield from (line for line in map(whole_line, lines.read()) if isinstance(line, RoundLine))
        if now != before:
            yield now
        if now.state == "over":
            return
        time.sleep(POLL_S)


def results(run_ids: Sequence[str], service: Path | None = None) -> Results:
    """Return what came out of runs, over or not, in this order; one that cannot be read costs the others nothing."""
    states = [state(run_id, service) for run_id in run_ids]
    return Results(read_result(Path(run.folder)) for run in states)


class _Lines:
    """What comes at the end of a file, which need not be there yet and may be written anew with the same lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def read(self) -> list[bytes]:
        """Return the whole lines that have come since the last time."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                content = file.read()
        except FileNotFoundError:
            return []
        whole = content[: content.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        return whole.splitlines()


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
    except TimeoutError:
        raise ConfigError(f"{path}: expected an answer of the service within {ANSWER_S:g} s, got none") from None
    except (OSError, WireError) as error:
        expected = "expected a service that runs there (coordinator serve), or one that PROTOEDGE_SERVICE names"
        raise ConfigError(f"{path}: {expected}: {getattr(error, 'strerror', None) or error}") from None
    if isinstance(answer, Refused):
        raise unusable(answer.reason, answer.is_full)
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
