"""The daemon's side of the aggregator: asks for downlinks and aggregates, and starts a dead aggregator again.

The daemon keeps the latest state of the server half, so an aggregator that dies is given that state and asked once
more; what was asked twice has the same answer. Answers come in the order of the questions. The downlink of the exchange
that should follow is asked for together with an aggregate, and made while the daemon writes that down.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from coordinator.aggregator import commands
from coordinator.aggregator.half import Aggregate, Closing, Constant, RoundUnusableError, ServerHalfError
from coordinator.delay import Delay
from wire.encoding import EMPTY_PACKED, Frames, Packed, decode, encode
from wire.limits import PIPE_BYTES
from wire.messages import Message
from wire.sockets.child import Child, thread_environment

MAX_ATTEMPTS = 3
"""How often an aggregator is started for one question."""


MODULE = "coordinator.aggregator"

Spare = Callable[[], Child | None]
"""Gives an aggregator away that was started, with one thread, before there was a run for it; None if there is none."""


Answer = tuple[Message, Packed | None]


class _AggregatorDiedError(Exception):
    pass


class ServerHalf:
    """The method's server half, in a process of its own."""

    def __init__(
        self,
        spec: dict[str, Any],
        modules: Path,
        log: Path,
        threads: int,
        answer_s: float,
        spare: Spare = lambda: None,
    ) -> None:
        """Say what to run.

        Args:
            spec: the run, as a `Welcome` carries it.
            modules: folder of a user's own modules.
            log: where the aggregator's output goes.
            threads: how many threads its libraries may use.
            answer_s: how long one answer may take, in seconds; an aggregator that takes longer is ended.
            spare: where an aggregator may be had that need not be started.
        """
        self._spec = spec
        self._modules = modules
        self._log = log
        self._environment = thread_environment(threads)
        self._spare: Spare = spare if threads == 1 else lambda: None
        self._answer_s = answer_s
        self._silence = Delay(answer_s, self._on_silent)
        self._child: Child | None = None
        self._awaited: deque[asyncio.Future[Answer]] = deque()
        self._ahead: tuple[tuple[int, str], asyncio.Future[Answer]] | None = None
        self._made: list[Constant] = []
        self._state: Packed | None = None
        self._num_train = 0
        self.global_hash = ""
        self.versions: dict[str, str] = {}

    @property
    def state(self) -> Packed | None:
        """The latest state, None before the first aggregation."""
        return self._state

    @property
    def pid(self) -> int | None:
        """The aggregator's process id, None while it has none."""
        return self._child.pid if self._child is not None else None

    async def begin(self, state: Packed | None, num_train: int = 0, wants_constants: bool = False) -> list[Constant]:
        """Put the server half to this state (None: before round 1); return the run constants if they are wanted."""
        self._state, self._num_train, self._ahead = state, num_train, None

        async def ask(child: Child) -> None:
            self._made = []  # what an aggregator made that died before it had begun is made again
            self._ask_begin(child, wants_constants)

        begun, _ = await self._ask(ask, knows_state=False)
        assert isinstance(begun, commands.Begun)
        self.global_hash = begun.global_hash
        self.versions = begun.versions
        return self._made

    async def configure(self, round: int, exchange: str) -> Packed:
        """Return the downlink of an exchange."""

        async def ask(child: Child) -> None:
            child.send(encode(commands.Configure(round, exchange)))

        _, packed = await self._made_ahead(round, exchange) or await self._ask(ask)
        assert packed is not None
        return packed

    async def aggregate(self, closing: Closing, meanwhile: Callable[[], None] = lambda: None) -> Aggregate:
        """Give the accepted updates, one at a time, and return what the server half made of them; see `half.Half`.

        Raises:
            RoundUnusableError: nothing can be made of these updates.
            ServerHalfError: the method failed.
        """

        def messages() -> Iterator[Frames]:
            yield encode(commands.Aggregate(closing.round, closing.exchange, closing.count))
            for client, num_train, packed in closing.contributions():
                yield encode(commands.Contribution(client, num_train), packed, PIPE_BYTES)
            if closing.following is not None:
                yield encode(commands.Configure(*closing.following))

        async def ask(child: Child) -> None:
            self._ahead = (closing.following, self._expect()) if closing.following is not None else None
            await child.send_all(messages())
            meanwhile()

        answer, state = await self._ask(ask)
        assert isinstance(answer, commands.Aggregated)
        assert state is not None
        self._state = state
        self.global_hash = answer.global_hash
        return Aggregate(state, answer.global_hash, answer.metrics)

    async def stop(self) -> None:
        """End the aggregator."""
        self._silence.cancel()
        if self._child is not None:
            await self._child.stop()

    async def _made_ahead(self, round: int, exchange: str) -> Answer | None:
        """Return the downlink that was asked for together with the last aggregate, None if it was another one."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == (round, exchange):
            with contextlib.suppress(_AggregatorDiedError):
                return self._checked(await ahead[1])
        return None

    async def _ask(self, ask: Callable[[Child], Awaitable[None]], knows_state: bool = True) -> Answer:
        """Ask, starting the aggregator first if there is none, and again if it dies before it answers."""
        died = ""
        for _ in range(MAX_ATTEMPTS):
            try:
                child = await self._running(knows_state)
                return self._checked(await self._answered(child, ask))
            except _AggregatorDiedError as error:
                died = str(error)
        raise ServerHalfError(f"the aggregator died {MAX_ATTEMPTS} times: {died}")

    async def _running(self, knows_state: bool) -> Child:
        if self._child is None:
            self._child = child = self._taken() or await self._started()
            if knows_state:

                async def ask(child: Child) -> None:
                    self._ask_begin(child, wants_constants=False)

                self._checked(await self._answered(child, ask))
        return self._child

    def _taken(self) -> Child | None:
        child = self._spare()
        if child is not None:
            child.belong_to(self._on_message, self._on_gone, self._log)
        return child

    async def _started(self) -> Child:
        child = Child(self._on_message, self._on_gone, self._log)
        await child.start(MODULE, (), self._environment)
        return child

    def _ask_begin(self, child: Child, wants_constants: bool) -> None:
        state = self._state or EMPTY_PACKED
        begin = commands.Begin(self._spec, str(self._modules), wants_constants, self._num_train, str(self._log))
        child.send(encode(begin, state, PIPE_BYTES))

    async def _answered(self, child: Child, ask: Callable[[Child], Awaitable[None]]) -> Answer:
        answer = self._expect()
        await ask(child)
        return await answer

    def _expect(self) -> asyncio.Future[Answer]:
        """Return the answer to a question that is about to be asked."""
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._awaited.append(answer)
        if len(self._awaited) == 1:
            self._time_next()
        return answer

    def _time_next(self) -> None:
        """Give the aggregator time for the next answer from now on, if one is awaited."""
        if self._awaited:
            self._silence.put_off()
        else:
            self._silence.end()

    def _on_silent(self) -> None:
        self._fail(ServerHalfError(f"the aggregator gave no answer within {self._answer_s:g} s"))
        if self._child is not None:
            self._child.kill()

    def _fail(self, error: Exception) -> None:
        """Give all questions this answer."""
        while self._awaited:
            answer = self._awaited.popleft()
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # nobody may want to know what was asked ahead
        self._time_next()

    def _checked(self, answer: Answer) -> Answer:
        message = answer[0]
        if isinstance(message, commands.Unusable):
            raise RoundUnusableError(message.reason) if message.round_only else ServerHalfError(message.reason)
        return answer

    def _on_message(self, frames: Frames) -> None:
        message, packed = decode(frames, commands.COMMANDS, PIPE_BYTES)
        if isinstance(message, commands.ConstantMade):
            assert packed is not None
            self._made.append(Constant(message.name, message.digest, packed))
        elif self._awaited:
            answer = self._awaited.popleft()
            self._time_next()
            if not answer.done():
                answer.set_result((message, packed))

    def _on_gone(self, how: str) -> None:
        self._child = None
        self._fail(_AggregatorDiedError(how))
