"""`--jobs N`: work for clients in N processes, of which each takes the next client when it is done with one.

Which job works for whom depends on the machine, and nothing else does: a client's states are in its folder, where any
job finds them. A job that dies is replaced, and its clients are asked again; one that makes jobs die `MAX_TRIES` times
ends the run.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.aggregator.half import Constant
from coordinator.simulation import commands
from coordinator.simulation.batching import shares
from coordinator.simulation.clients import Announced, Assignment, Done
from models.checkpoint import CheckpointError
from models.spec import ConfigError
from wire.encoding import Frames, decode, encode
from wire.errors import EncodeError
from wire.limits import PIPE_BYTES
from wire.messages import Message
from wire.sockets.child import Child, thread_environment
from wire.sockets.memory import peak_rss_bytes

MAX_TRIES = 3
"""How often a client may be asked before the run is given up."""


class ClientsFailedError(Exception):
    """The work for a client cannot be done."""


class _JobDiedError(Exception):
    pass


@dataclass
class _Share:
    """Clients that one job works for in a row; those that have answered are taken out."""

    clients: list[str]
    num_tries: int = 0


Ask = Callable[["_Job", Sequence[str]], Awaitable[None]]
"""Asks a job something about clients."""


class _Job:
    """One process, started when it is asked something, and again if it has died since."""

    def __init__(self, opening: Sequence[Frames], log: Path, environment: Mapping[str, str], answer_s: float) -> None:
        self._opening = opening
        self._log = log
        self._environment = environment
        self._answer_s = answer_s
        self._child: Child | None = None
        self._answers: asyncio.Queue[Frames | str] = asyncio.Queue()
        self._assignment: Assignment | None = None
        self.peak_rss_bytes = 0

    async def ask(self, message: Message, assignment: Assignment | None = None) -> None:
        """Send a command, and in front of it the exchange that it is about, unless the job knows that."""
        child = await self._running()
        if assignment is not None and self._assignment is not assignment:
            self._assignment = assignment
            opened = commands.Open(assignment.round, assignment.exchange, assignment.base)
            child.send(encode(opened, assignment.downlink, PIPE_BYTES))
        child.send(encode(message))
        await child.drain()

    async def answer(self) -> Frames:
        """Return the frames of the next answer."""
        try:
            frames = await asyncio.wait_for(self._answers.get(), self._answer_s)
        except asyncio.TimeoutError:
            await self.close()
            raise _JobDiedError(f"gave no answer within {self._answer_s:g} s") from None
        if isinstance(frames, str):
            raise _JobDiedError(frames)
        return frames

    async def close(self) -> None:
        """End the process, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            self.peak_rss_bytes = max(self.peak_rss_bytes, peak_rss_bytes(child.pid) or 0)
            await child.stop()

    async def _running(self) -> Child:
        if self._child is None:
            self._answers, self._assignment = asyncio.Queue(), None
            self._child = child = Child(self._answers.put_nowait, self._on_gone, self._log)
            await child.start("coordinator.simulation.job", (), self._environment)
            for frames in self._opening:
                child.send(frames)
                await child.drain()
        return self._child

    def _on_gone(self, how: str) -> None:
        self._child = None
        self._answers.put_nowait(how)


class JobClients:
    """Has the work for clients done by jobs."""

    def __init__(self, begin: commands.Begin, num_jobs: int, log: Path, threads: int, answer_s: float) -> None:
        """Say what to run.

        Args:
            begin: what each job is told first, but for the number of constants.
            num_jobs: how many processes.
            log: where their output goes.
            threads: how many threads the libraries of each may use.
            answer_s: how long one client's work may take.
        """
        self._begin = begin
        self._num_jobs = num_jobs
        self._log = log
        self._environment = thread_environment(threads)
        self._answer_s = answer_s
        self._jobs: list[_Job] = []
        self._num_train: dict[str, int] = {}
        self._outcomes: asyncio.Queue[Frames | Exception | None] = asyncio.Queue()
        self._stopped = False

    async def begin(self, clients: Sequence[str], constants: Sequence[Constant]) -> AsyncGenerator[Announced, None]:
        """Yield what each of these clients announces."""
        opening = commands.opening(self._begin, constants)
        self._jobs = [_Job(opening, self._log, self._environment, self._answer_s) for _ in range(self._num_jobs)]

        async def ask(job: _Job, clients: Sequence[str]) -> None:
            await job.ask(commands.Announce(list(clients)))

        in_shares = [list(clients[index :: self._num_jobs]) for index in range(self._num_jobs)]
        async for frames in self._answers(in_shares, ask):
            announced = commands.read_announced(frames)
            self._num_train[announced.client] = announced.ready.num_train
            yield announced

    async def perform(self, assignment: Assignment, kept: Mapping[str, int]) -> AsyncGenerator[Done, None]:
        """Yield what each client of `kept` has done; those with most to do are asked first."""

        async def ask(job: _Job, clients: Sequence[str]) -> None:
            await job.ask(commands.Perform({client: kept[client] for client in clients}), assignment)

        in_shares = shares(kept, self._num_train, self._num_jobs if self._begin.batched else 0)
        async for head, *frames in self._answers(in_shares, ask):
            yield commands.read_performed(head, frames)

    def stop(self) -> None:
        """End what is being yielded."""
        self._stopped = True
        asyncio.get_running_loop().call_soon_threadsafe(self._outcomes.put_nowait, None)

    async def close(self) -> None:
        """End all jobs, and delete the data set that they shared."""
        await asyncio.gather(*(job.close() for job in self._jobs))
        if self._begin.samples:
            shutil.rmtree(self._begin.samples, ignore_errors=True)

    def peak_rss_bytes(self) -> int | None:
        """Return the peak resident memory of the largest job that was closed."""
        return max((job.peak_rss_bytes for job in self._jobs), default=0) or None

    async def _answers(self, shares: Sequence[list[str]], ask: Ask) -> AsyncGenerator[Frames, None]:
        """Yield the answers for all clients of these shares, each of which goes to one job."""
        self._outcomes = asyncio.Queue()
        if self._stopped:
            return
        todo = deque(_Share(list(clients)) for clients in shares if clients)
        num_answers = sum(len(share.clients) for share in todo)
        at_work = [asyncio.ensure_future(self._work(job, todo, ask)) for job in self._jobs]
        try:
            for _ in range(num_answers):
                outcome = await self._outcomes.get()
                if outcome is None:
                    return
                if isinstance(outcome, Exception):
                    raise outcome
                yield outcome
        finally:
            for task in at_work:
                task.cancel()

    async def _work(self, job: _Job, todo: deque[_Share], ask: Ask) -> None:
        """Let a job do share after share; what ends it goes where the answers go."""
        try:
            while todo:
                await self._do(job, todo, ask)
        except Exception as error:
            self._outcomes.put_nowait(error)

    async def _do(self, job: _Job, todo: deque[_Share], ask: Ask) -> None:
        """Let a job do one share; if it dies, what is left of that is for the next one that asks."""
        share = todo.popleft()
        try:
            await ask(job, share.clients)
            while share.clients:
                frames = await job.answer()
                client = _client_of(frames)
                share.clients.remove(client)
                share.num_tries = 0
                self._outcomes.put_nowait(frames)
        except _JobDiedError as error:
            share.num_tries += 1
            if share.num_tries == MAX_TRIES:
                text = f"{share.clients[0]}: a job died {MAX_TRIES} times at its work: {error}"
                raise ClientsFailedError(text) from None
            todo.appendleft(share)


def _client_of(frames: Frames) -> str:
    """Return whose answer this is.

    Raises:
        ConfigError, EncodeError, CheckpointError, OSError, ClientsFailedError: it is none.
    """
    message, _ = decode(frames[:1], commands.COMMANDS)
    if isinstance(message, commands.Announced | commands.Performed):
        return message.client
    assert isinstance(message, commands.Failed)
    kinds: dict[str, type[Exception]] = {
        "setting": ConfigError,
        "size": EncodeError,
        "state": CheckpointError,
        "disk": OSError,
        "method": ClientsFailedError,
    }
    raise kinds[message.cause](message.reason)
