"""The conductor: takes the instructions that take time, one after the other, to the server half, accounts and record.

Asking the server half and waiting until something is durable are done here. The store commits in the order in which it
is told, so when an exchange's opening is durable, and its tasks go out, all before it can no longer be lost. What was
open before a restart is open here from the start, and is never asked of the server half again. The daemon and the
simulator both have one; they differ in the server half they give it (another process, or this one) and in how tasks
reach clients.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal

from coordinator import round_events
from coordinator.aggregator.half import Closing, Constant, Half, RoundUnusableError
from coordinator.delay import Delay
from coordinator.exchange import OpenExchange
from coordinator.gate import Gate
from coordinator.metrics.byte_prediction import downlink_dims, uplink_dims
from coordinator.metrics.ledger import Ledger, RoundView
from coordinator.metrics.links import StoredLinks
from coordinator.metrics.origin import Origin
from coordinator.rounds import Rounds
from coordinator.start import check_downlink, taking_up
from coordinator.store.record import RunRecord
from coordinator.store.standing import Standing
from models.failpoints import reach
from models.methods.api import Exchange, Method
from wire.encoding import EMPTY_PACKED, Packed
from wire.errors import WireError
from wire.payload import Record
from wire.sockets.memory import PeakMemory

TELL_WITHIN_S = 0.1
"""How long people may wait to hear of what was closed; clients come first, and rounds may follow each other faster."""


class Conductor:
    """Carries out instructions in order; `feed` takes the events that follow from them."""

    def __init__(
        self,
        machine: Rounds,
        method: Method,
        half: Half,
        record: RunRecord,
        ledger: Ledger,
        clock: Callable[[], float],
        feed: Callable[[round_events.Event], None],
        finish: Callable[[round_events.Finish], None],
    ) -> None:
        """Bring the parts together; `clock` is the one that deadlines run by, which in simulation is not this one."""
        self._machine = machine
        self._method = method
        self._half = half
        self._record = record
        self._ledger = ledger
        self._clock = clock
        self._feed = feed
        self._finish = finish
        self._todo: asyncio.Queue[round_events.Instruction] = asyncio.Queue()
        self._digests: dict[str, str] = {}
        self._num_train: int | None = None
        self._origin: Origin | None = None
        self._memory = {
            "coordinator_peak_rss_bytes": PeakMemory(lambda: "self"),
            "aggregator_peak_rss_bytes": PeakMemory(lambda: half.pid),
        }
        self._has_stored_links = False
        self._untold: list[RoundView] = []
        self._unlooked: Sequence[str] = ()
        self._looked_at: set[str] = set()
        self._unpredicted: set[str] = set()
        self._telling = Delay(TELL_WITHIN_S, self._tell)
        self._told_at = -math.inf
        self._obedience: dict[type[Any], Callable[[Any], Awaitable[None]]] = {
            round_events.Configure: self._configure,
            round_events.Aggregate: self._aggregate,
            round_events.CompleteRound: self._complete_round,
            round_events.FailRound: self._fail_round,
            round_events.Finish: self._end,
        }
        self.exchange = OpenExchange(0, 0, self.declared(), EMPTY_PACKED)

    def peaks(self) -> dict[str, int | None]:
        """Return the peak memory of this process and of the server half's so far, as a summary names them."""
        return {name: memory.overall_bytes() for name, memory in self._memory.items()}

    def put(self, instruction: round_events.Instruction) -> None:
        """Queue an instruction."""
        self._todo.put_nowait(instruction)

    @property
    def has_work(self) -> bool:
        """Whether an instruction waits to be carried out."""
        return not self._todo.empty()

    async def begin(self) -> list[Constant]:
        """Take up the run where it stands, and return its constants, which are durable by then.

        Raises:
            ConfigError: a new run cannot go on from the state that it was started from.
            ServerHalfError: the method failed.
        """
        standing, self._record.standing = self._record.standing, Standing()
        self._origin = standing.init_from
        if standing.start_classes is not None:
            self._ledger.start_from(standing.start_classes, standing.init_from)
        for client, ready in standing.announced.items():
            self._ledger.announce(client, ready)
        for client, profile in standing.devices.items():
            self._ledger.device(client, profile)
        self._ledger.replay(self._record.lines())
        self._ledger.since_start.before(standing.sent_constants, standing.refusals)
        self._num_train = standing.num_train
        constants = await self._begin_half(standing)
        self._digests = {constant.name: constant.digest for constant in constants}
        if standing.downlink is not None:
            self._reopen(standing, standing.downlink)
        elif self._machine.exchange == 0:
            self._take_peaks()
        return constants

    async def work(self) -> None:
        """Carry out what is queued, until cancelled."""
        try:
            while True:
                await self.carry_out(await self._todo.get())
                if not self.has_work and self._is_time_to_tell():
                    self._told_at = self._now()
                    self._tell()
        finally:
            self._tell()

    async def drain(self) -> None:
        """Carry out what is queued now."""
        while not self._todo.empty():
            await self.carry_out(self._todo.get_nowait())
        self._tell()

    async def carry_out(self, instruction: round_events.Instruction) -> None:
        """Carry out one instruction.

        Raises:
            ConfigError: what the run was started from does not fit a client.
            ServerHalfError: the method failed.
        """
        await self._obedience[type(instruction)](instruction)

    def declared(self) -> Exchange:
        """Return the open exchange as the method declares it."""
        return self._method.exchange(self._machine.exchange)

    def misfit(self, client: str, packed: Packed, gate: Gate) -> str | None:
        """Say what is wrong with an uplink, None if it follows from what its client announced and passes the gate."""
        facts = self._ledger.facts(client)
        dims = {"K": gate.num_classes, **uplink_dims(self.declared(), facts)}

        def check(record: Record) -> None:
            gate.check(record, facts.class_counts)

        return self.exchange.misfit(packed, dims, self._digests, check, gate.classes)

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _begin_half(self, standing: Standing) -> list[Constant]:
        """Put the server half to the latest state; the run constants are made once and never again."""
        if standing.constants is not None:
            await self._half.begin(standing.latest_state, standing.num_train or 0)
            return standing.constants
        with taking_up(self._origin):
            constants = await self._half.begin(standing.latest_state, wants_constants=True)
            if self._origin is not None:
                downlink = await self._half.configure(1, self._method.downlink_name(0))
                check_downlink(self.declared(), downlink, self._ledger.first_dims(None))
        await self._record.put_constants(constants)
        reach("constants.stored")
        return constants

    def _check_sizes(self, downlink: Packed, cohort: Iterable[str]) -> None:
        """Hold the first downlink of a run that was started from another to the sizes that its clients have."""
        for client in cohort if self._origin is not None else ():
            with taking_up(self._origin, client):
                self.declared().downlink.check_forms(downlink.forms, downlink.scalars, self._ledger.first_dims(client))

    def _reopen(self, standing: Standing, downlink: Packed) -> None:
        """Take back the exchange that was open, with the updates that it had."""
        round, index = self._machine.round, self._machine.exchange
        self.exchange = OpenExchange(round, index, self.declared(), downlink)
        if not self._machine.evaluating:
            self._ledger.round_opened(round, self._now(), resumed=True)
        self._ledger.exchange_opened(round, index, sorted(self._machine.cohort), self._now(), resumed=True)
        for held in standing.updates:
            self.exchange.restore(held.client, held.num_train, held.packed, held.is_spilled)
            self._ledger.task_sent(held.client, held.task_cost, None)
            self._ledger.update_accepted(held.client, held.cost, held.report, None)

    async def _count_samples(self) -> None:
        """Tell the server half, once in a run, how many train samples there are."""
        self._num_train = self._ledger.num_train(self._machine.ready)
        self._record.put_num_train(self._num_train)
        await self._half.begin(self._record.start_state, self._num_train)

    async def _configure(self, instruction: round_events.Configure) -> None:
        if self._num_train is None:
            await self._count_samples()
        if (instruction.round, instruction.exchange) != (self.exchange.round, self.exchange.index):
            await self._open(instruction)
        self._feed(round_events.Configured(self._clock()))

    async def _open(self, instruction: round_events.Configure) -> None:
        if instruction.exchange == 0:
            self._ledger.round_opened(instruction.round, self._now())
        name = self._method.downlink_name(instruction.exchange)
        downlink = await self._half.configure(instruction.round, name)
        reach("downlink.made")
        if (instruction.round, instruction.exchange) == (1, 0):
            self._check_sizes(downlink, instruction.cohort)
        self.exchange = OpenExchange(instruction.round, instruction.exchange, self.declared(), downlink)
        self._ledger.exchange_opened(instruction.round, instruction.exchange, instruction.cohort, self._now())
        self._unlooked = instruction.cohort[:1]
        await self._record.open_exchange(instruction, downlink, self._links_at_opening())
        reach("exchange.opened")

    def _tell_unpredicted(self) -> None:
        """Say, once of an exchange, that the downlink just sent is not of the sizes predicted for the first client.

        Where rounds are faster than people are told, not every downlink is looked at, but the first of each exchange.
        """
        clients, self._unlooked = self._unlooked, ()
        for client in clients:
            declared, downlink = self.exchange.declared, self.exchange.downlink
            self._looked_at.add(declared.name)
            if declared.name in self._unpredicted:
                return
            try:
                dims = downlink_dims(declared, self._ledger.facts(client))
                declared.downlink.check_forms(downlink.forms, downlink.scalars, dims)
            except WireError as error:
                self._unpredicted.add(declared.name)
                where = f"round {self.exchange.round}, exchange {declared.name!r}"
                told = f"the downlink of {where} is not of the sizes that downlink_dims gives: {error}"
                self._record.display.note(told)

    def _links_at_opening(self) -> StoredLinks | None:
        """Return what the kernel has counted, None if the exchange before has stored it as it was closed."""
        has_stored, self._has_stored_links = self._has_stored_links, True
        return None if has_stored else self._ledger.links()

    async def _aggregate(self, instruction: round_events.Aggregate) -> None:
        failure, state, told = "", None, {}
        closing = functools.partial(self._ledger.exchange_closing, self._now())
        if not self._machine.evaluating:
            name, count = self.declared().name, len(instruction.clients)
            question = Closing(instruction.round, name, self._contributions, count, self._following(instruction))
            try:
                made = await self._half.aggregate(question, closing)
                state, told = made.state, made.metrics
            except RoundUnusableError as error:
                failure = str(error)
        reach("exchange.aggregated")
        lines = self._ledger.exchange_closed(told, self._now())
        closes_round = bool(failure) or instruction.exchange + 1 == len(self._method.exchanges)
        links = self._ledger.links_at_closing
        self._record.close_exchange(
            instruction.round, instruction.exchange, state, lines, links, closes_round, instruction.clients
        )
        self._telling.begin()
        reach("exchange.closed")
        self._feed(round_events.Aggregated(self._clock(), failure))

    def _following(self, instruction: round_events.Aggregate) -> tuple[int, str] | None:
        """Return round and name of the exchange that follows if all is well, None after those of the last round."""
        exchanges, index = self._method.exchanges, instruction.exchange + 1
        if index < len(exchanges):
            return instruction.round, exchanges[index].name
        return (
            (instruction.round + 1, exchanges[0].name) if instruction.round < self._machine.rules.num_rounds else None
        )

    def _contributions(self) -> Iterable[tuple[str, int, Packed]]:
        exchange = self.exchange
        return exchange.contributions(lambda client: self._record.load_buffer(exchange.round, exchange.index, client))

    async def _complete_round(self, instruction: round_events.CompleteRound) -> None:
        self._close_round("completed", instruction.round, "", instruction.accepted)

    async def _fail_round(self, instruction: round_events.FailRound) -> None:
        self._has_stored_links = False
        await self._half.begin(self._record.start_state, self._num_train or 0)
        self._close_round("failed", instruction.round, instruction.reason, ())
        self._feed(round_events.Restored(self._clock()))

    def _close_round(
        self, status: Literal["completed", "failed"], round: int, reason: str, accepted: Sequence[str]
    ) -> None:
        peaks = self._take_peaks()
        lines = self._ledger.round_closed(round, status, reason, self._half.global_hash, self._now(), peaks)
        state = self._half.state if status == "completed" else None
        self._record.close_round(status, round, reason, self._half.global_hash, state, accepted, lines)
        reach("round.closed")
        self._untold.append(self._ledger.headline(round))
        self._telling.begin()

    def _is_time_to_tell(self) -> bool:
        """Say whether people hear now: of the first of each exchange at once, of fast rounds only now and then."""
        is_first = self.exchange.declared.name not in self._looked_at
        return is_first or self._now() - self._told_at >= TELL_WITHIN_S

    def _tell(self) -> None:
        """Tell people of what was closed."""
        self._telling.end()
        self._record.write_lines()
        self._tell_unpredicted()
        while self._untold:
            self._record.display.round_closed(self._untold.pop(0))

    def _take_peaks(self) -> dict[str, int | None]:
        """Return the peaks since the last look; of a round that another process began, none are known."""
        return {name: memory.take_bytes() for name, memory in self._memory.items()}

    async def _end(self, instruction: round_events.Finish) -> None:
        await self._record.settle()  # who hears that the run is over does not come back
        self._finish(instruction)
