"""What a service manager does: every daemon that was killed is started again, until the run is over."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.chaos.kills import Kill, Tickets
from tests.integration.processes import Coordinator, Process, booked
from tests.integration.served_run import ServedRun, client_id
from wire.exit_codes import ExitCode

NUM_CLIENTS = 3

OVER_WITHIN_S = 300.0
"""How long a run may take, all its restarts included."""


class Supervisor:
    """The daemons of one run, of which each dies at its kills and is started again."""

    def __init__(self, run: ServedRun, kills: Sequence[Kill] = ()) -> None:
        self.run = run
        self.tickets = Tickets(run.folder / "tickets", kills)
        self._num_coordinators = 0
        self._restarted: set[int] = set()
        self._address = f"127.0.0.1:{_free_port()}"
        self._indices = range(NUM_CLIENTS)

    def finish(self) -> Coordinator:
        """See the run end as finished, and return the coordinator that has ended it."""
        give_up_at = time.monotonic() + OVER_WITHIN_S
        coordinator = self._serve()
        clients = {index: self._client(index) for index in self._indices}
        while (code := coordinator.poll()) != ExitCode.FINISHED:
            assert code in (None, -signal.SIGKILL), coordinator.said
            assert time.monotonic() < give_up_at, f"not over: {self.tickets.left} are left\n{coordinator.said}"
            if _was_killed(coordinator):
                coordinator = self._go_on(coordinator)
            for index, client in clients.items():
                assert client.poll() in (None, -signal.SIGKILL, ExitCode.FINISHED), client.said
                if _was_killed(client):
                    clients[index] = self._client(index)
                    self._restarted.add(index)
            time.sleep(0.02)
        self._see_clients_leave(clients)
        return coordinator

    def _see_clients_leave(self, clients: dict[int, Process]) -> None:
        """Every client has heard of the end, but for one that was killed when it did: that is stopped."""
        for index, client in clients.items():
            if index not in self._restarted:
                assert client.wait() in (ExitCode.FINISHED, -signal.SIGKILL), client.said
            elif not client.ended:
                client.stop()

    def _serve(self) -> Coordinator:
        with self._dying("coordinator", "aggregator"):
            return self.run.serve("--set", f"transport.bind={self._address}")

    def _go_on(self, killed: Coordinator) -> Coordinator:
        """Start a killed coordinator again: with its run, or anew if it had not stored that there is one."""
        self._num_coordinators += 1
        if not _has_begun(killed.folder):
            killed.forget()
            return self._serve()
        with self._dying("coordinator", "aggregator"):
            return self.run.resume_at(self._address, killed.folder, name=f"resumed-{self._num_coordinators}")

    def _client(self, index: int) -> Process:
        with self._dying(client_id(index), f"trainer-{index:02d}"):
            return self.run.client(index, self._address)

    @contextlib.contextmanager
    def _dying(self, *processes: str) -> Iterator[None]:
        """Let what is started meanwhile know its kills."""
        environment = self.run.processes.environment
        before = dict(environment)
        environment.update(self.tickets.environment(*processes))
        yield
        environment.clear()
        environment.update(before)


def see_nothing_lost(ended: Coordinator, num_exchanges: int) -> None:
    """See that every update of every round was counted, once."""
    summary = ended.summary
    num_rounds = summary["num_rounds"]
    assert (summary["outcome"], summary["rounds_completed"]) == ("finished", num_rounds)
    assert summary["updates"]["accepted"] == NUM_CLIENTS * num_rounds * num_exchanges
    lines = booked(ended.folder)
    assert [line["round"] for line in lines if line["kind"] == "round"] == [*range(1, num_rounds + 1)]
    told = [(line["round"], line["exchange"], line["client"]) for line in lines if line["kind"] == "client"]
    assert len(told) == len(set(told)) == NUM_CLIENTS * (num_exchanges * num_rounds + 1)
    assert "Traceback" not in ended.said
    log = (ended.folder / "log.txt").read_text()
    assert not any(lost in log for lost in ("goes on from another state", "expected to find its state"))


def _was_killed(process: Process) -> bool:
    return process.poll() == -signal.SIGKILL


def _has_begun(folder: Path) -> bool:
    try:
        with contextlib.closing(sqlite3.connect(f"file:{folder}/store.sqlite?mode=ro", uri=True)) as store:
            return bool(store.execute("SELECT 1 FROM meta WHERE key = 'mode'").fetchall())
    except sqlite3.Error:
        return False


def _free_port() -> int:
    """Return a port that is free, and that the system gives to nobody else while nobody listens there for a moment."""
    for port in random.sample(range(20_000, 30_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no free port")
