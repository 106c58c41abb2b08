"""What the conductor has stored with an exchange, with recorders in place of the server half and the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator import conductor as conductor_module
from coordinator import round_events as rounds
from coordinator.conductor import Conductor
from coordinator.half import Aggregate, Closing, Half, ServerHalfError
from coordinator.metrics.links import StoredLinks
from coordinator.rounds import Rounds
from coordinator.store.record import RunRecord
from tests.coordinator.accounting import READY, TWO
from tests.coordinator.metrics.test_ledger_wire import Kernel
from wire.encoding import Packed

NOTHING = Packed([], {}, b"")


class Desk:
    """A conductor of a run of two exchanges per round, and the links that it has stored, in order."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.stored: list[StoredLinks | None] = []
        self.told: list[int] = []
        self.num_written = 0
        self.fault: Exception | None = None
        self.settled: asyncio.Future[None]
        self.finished: list[rounds.Finish] = []
        self.machine = SimpleNamespace(evaluating=False, exchange=0, rules=SimpleNamespace(num_rounds=2))
        half = SimpleNamespace(
            begin=self._begin,
            configure=self._configure,
            aggregate=self._aggregate,
            global_hash="h",
            state=None,
            pid=None,
        )
        record = SimpleNamespace(
            start_state=None,
            display=SimpleNamespace(round_closed=lambda view: self.told.append(view.round)),
            write_lines=self._write_lines,
            put_num_train=lambda number: None,
            open_exchange=self._open,
            close_exchange=lambda *told: self.stored.append(told[4]),
            close_round=lambda *told: None,
            settle=lambda: self.settled,
        )
        self.machine.ready = set(READY)
        self.conductor = Conductor(
            cast(Rounds, self.machine),
            TWO,
            cast(Half, half),
            cast(RunRecord, record),
            self.kernel.ledger,
            lambda: 0.0,
            lambda event: None,
            self.finished.append,
        )

    def _write_lines(self) -> None:
        self.num_written = len(self.stored)

    async def _begin(self, *told: Any) -> list[Any]:
        return []

    async def _configure(self, round: int, exchange: str) -> Packed:
        self.kernel.grow("ann", 1, 1)
        if self.fault is not None:
            raise self.fault
        return NOTHING

    async def _aggregate(self, closing: Closing, meanwhile: Callable[[], None]) -> Aggregate:
        meanwhile()
        self.kernel.grow("ann", 1000, 1000)
        return Aggregate(NOTHING, "h", {})

    async def _open(self, opened: rounds.Configure, downlink: Packed, links: StoredLinks | None) -> None:
        self.stored.append(links)

    async def exchange(self, round: int, index: int) -> None:
        """Open an exchange and close it again."""
        self.machine.exchange = index
        await self.conductor.carry_out(rounds.Configure(round, index, tuple(READY)))
        await self.conductor.carry_out(rounds.Aggregate(round, index, ()))

    def up_bytes(self) -> Sequence[int | None]:
        """Return what was stored of ann's, each time that an exchange was opened or closed."""
        return [links.links["ann"].up_bytes if links is not None else None for links in self.stored]


def test_links_are_stored_with_the_first_opening_and_with_every_close_as_of_its_beginning() -> None:
    desk = Desk()

    async def play() -> None:
        await desk.exchange(1, 0)
        await desk.exchange(1, 1)

    asyncio.run(play())
    assert desk.up_bytes() == [501, 501, None, 1502]


def test_a_failed_round_stores_no_links_so_the_next_opening_does() -> None:
    desk = Desk()

    async def play() -> None:
        await desk.exchange(1, 0)
        await desk.conductor.carry_out(rounds.FailRound(1, "1 of 2 updates"))
        await desk.exchange(2, 0)

    asyncio.run(play())
    assert desk.up_bytes() == [501, 501, 1502, 1502]


def test_people_hear_of_a_round_also_when_the_next_one_cannot_be_opened() -> None:
    desk = Desk()

    async def play() -> None:
        await desk.exchange(1, 0)
        await desk.exchange(1, 1)
        desk.fault = ServerHalfError("no")
        for instruction in (rounds.CompleteRound(1, ()), rounds.Configure(2, 0, tuple(READY))):
            desk.conductor.put(instruction)
        await desk.conductor.work()

    with pytest.raises(ServerHalfError):
        asyncio.run(play())
    assert desk.told == [1]


def test_people_hear_of_a_round_while_the_next_one_is_slow_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conductor_module, "TELL_WITHIN_S", 0.0)
    desk = Desk()

    async def play() -> None:
        await desk.exchange(1, 0)
        await desk.exchange(1, 1)
        await desk.conductor.carry_out(rounds.CompleteRound(1, ()))
        while not desk.told:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(play(), 10.0))
    assert desk.told == [1]


def test_the_lines_of_an_exchange_are_written_while_what_follows_is_slow() -> None:
    """Also of one that is not its round's last; people are told of rounds alone."""
    desk = Desk()

    async def play() -> None:
        await desk.exchange(1, 0)
        assert desk.num_written < len(desk.stored)
        while desk.num_written < len(desk.stored):
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(play(), 10.0))
    assert desk.told == []


def test_a_run_is_over_when_its_end_can_no_longer_be_lost() -> None:
    desk = Desk()

    async def play() -> None:
        desk.settled = asyncio.get_running_loop().create_future()
        ending = asyncio.ensure_future(desk.conductor.carry_out(rounds.Finish("finished")))
        await asyncio.sleep(0)
        assert desk.finished == []
        desk.settled.set_result(None)
        await ending

    asyncio.run(play())
    assert [finish.outcome for finish in desk.finished] == ["finished"]
