"""What the conductor has stored with an exchange, with recorders in place of the server half and the store."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from coordinator import conductor as conductor_module
from coordinator import round_events
from coordinator.aggregator.half import Aggregate, Closing, Half, ServerHalfError
from coordinator.conductor import Conductor
from coordinator.metrics.links import StoredLinks
from coordinator.metrics.origin import Origin
from coordinator.rounds import Rounds
from coordinator.store.record import RunRecord
from coordinator.store.standing import Standing
from models.spec import ConfigError
from tests.coordinator.accounting import READY, TWO, Known
from tests.coordinator.metrics.test_ledger_wire import Kernel
from wire.encoding import Packed, pack
from wire.errors import EncodeError

NOTHING = Packed([], {}, b"")
ORIGIN = Origin("two-0", 7, "a1")


class Desk:
    """A conductor of a run of two exchanges per round, and the links that it has stored, in order."""

    def __init__(self) -> None:
        self.kernel = Kernel()
        self.stored: list[StoredLinks | None] = []
        self.told: list[int] = []
        self.num_written = self.num_constants_stored = 0
        self.fault: Exception | None = None
        self.downlink = NOTHING
        self.settled: asyncio.Future[None]
        self.finished: list[round_events.Finish] = []
        self.noted: list[str] = []
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
            standing=Standing(start_classes=frozenset({0, 2}), init_from=ORIGIN, latest_state=NOTHING),
            lines=list,
            put_constants=self._put_constants,
            display=SimpleNamespace(round_closed=lambda view: self.told.append(view.round), note=self.noted.append),
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

    async def _put_constants(self, constants: Sequence[Any]) -> None:
        self.num_constants_stored += 1

    def _write_lines(self) -> None:
        self.num_written = len(self.stored)

    async def _begin(self, *told: Any, **named: Any) -> list[Any]:
        return []

    async def _configure(self, round: int, exchange: str) -> Packed:
        self.kernel.grow("ann", 1, 1)
        if self.fault is not None:
            raise self.fault
        return self.downlink

    async def _aggregate(self, closing: Closing, meanwhile: Callable[[], None]) -> Aggregate:
        meanwhile()
        self.kernel.grow("ann", 1000, 1000)
        return Aggregate(NOTHING, "h", {})

    async def _open(self, opened: round_events.Configure, downlink: Packed, links: StoredLinks | None) -> None:
        self.stored.append(links)

    async def exchange(self, round: int, index: int) -> None:
        """Open an exchange and close it again."""
        self.machine.exchange = index
        await self.conductor.carry_out(round_events.Configure(round, index, tuple(READY)))
        await self.conductor.carry_out(round_events.Aggregate(round, index, ()))

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


def test_a_downlink_of_other_sizes_than_predicted_is_told_of_once() -> None:
    desk = Desk()

    async def play() -> None:
        for round in (1, 2):
            await desk.exchange(round, 0)
            await desk.conductor.drain()

    asyncio.run(play())
    told = f"the downlink of round 1, exchange {TWO.exchanges[0].name!r} is not of the sizes that downlink_dims gives: "
    assert desk.noted == [f"{told}expected fields ['classes', 'means'], got []"]


def test_a_failed_round_stores_no_links_so_the_next_opening_does() -> None:
    desk = Desk()

    async def play() -> None:
        await desk.exchange(1, 0)
        await desk.conductor.carry_out(round_events.FailRound(1, "1 of 2 updates"))
        await desk.exchange(2, 0)

    asyncio.run(play())
    assert desk.up_bytes() == [501, 501, 1502, 1502]


def test_people_hear_of_a_round_also_when_the_next_one_cannot_be_opened() -> None:
    desk = Desk()

    async def play() -> None:
        await desk.exchange(1, 0)
        await desk.exchange(1, 1)
        desk.fault = ServerHalfError("no")
        for instruction in (round_events.CompleteRound(1, ()), round_events.Configure(2, 0, tuple(READY))):
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
        await desk.conductor.carry_out(round_events.CompleteRound(1, ()))
        while not desk.told:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(play(), 10.0))
    assert desk.told == [1]


def test_of_rounds_faster_than_that_people_hear_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """But the first downlink of each exchange is looked at in its time."""
    monkeypatch.setattr(conductor_module, "TELL_WITHIN_S", 1000.0)
    desk = Desk()

    async def play() -> tuple[list[int], int]:
        working = asyncio.create_task(desk.conductor.work())
        for round, index in itertools.product((1, 2, 3), (0, 1)):
            desk.machine.exchange = index
            for made in (round_events.Configure(round, index, tuple(READY)), round_events.Aggregate(round, index, ())):
                desk.conductor.put(made)
                await asyncio.sleep(0.001)
            if index == 1:
                desk.conductor.put(round_events.CompleteRound(round, ()))
                await asyncio.sleep(0.001)
        heard, num_noted = list(desk.told), len(desk.noted)
        working.cancel()
        await asyncio.wait([working])
        return heard, num_noted

    assert asyncio.run(asyncio.wait_for(play(), 10.0)) == ([], len(TWO.exchanges))
    assert desk.told == [1, 2, 3]


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
        ending = asyncio.ensure_future(desk.conductor.carry_out(round_events.Finish("finished")))
        await asyncio.sleep(0)
        assert desk.finished == []
        desk.settled.set_result(None)
        await ending

    asyncio.run(play())
    assert [finish.outcome for finish in desk.finished] == ["finished"]


def known(width: int, classes: Sequence[int] = (0, 2)) -> Packed:
    """Return what a run of the method `two` sends first."""
    means = np.full((len(classes), width), 0.5, np.float32)
    return pack(Known(means, np.array(classes, np.uint16)).to_payload())


def test_a_state_that_fits_is_taken_up() -> None:
    desk = Desk()
    desk.downlink = known(2)

    async def play() -> None:
        await desk.conductor.begin()
        await desk.exchange(1, 0)

    asyncio.run(play())
    assert desk.num_constants_stored == 1
    assert len(desk.stored) == 2


@pytest.mark.parametrize(
    ("downlink", "told"),
    [
        (known(3), "field 'means': expected D = 2, got 3 (shape (2, 3))"),
        (known(2, (0, 9)), "field 'classes': expected class ids below 4, got 9"),
        (known(2, (1, 1)), "field 'classes': expected strictly increasing class ids, got [1, 1]"),
        (NOTHING, "expected fields ['classes', 'means'], got []"),
    ],
)
def test_a_state_that_does_not_fit_the_run_is_refused_before_anything_is_stored(downlink: Packed, told: str) -> None:
    desk = Desk()
    desk.downlink = downlink
    with pytest.raises(ConfigError, match=f"--init-from two-0: its state does not fit this run: {re.escape(told)}$"):
        asyncio.run(desk.conductor.begin())
    assert desk.num_constants_stored == 0


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ServerHalfError("KeyError: 'masks'"), "KeyError: 'masks'"),
        (EncodeError("array 'means': codec f32 cannot hold nan"), "array 'means': codec f32 cannot hold nan"),
        (ValueError("a state\nof two lines"), "ValueError: a state of two lines"),
    ],
)
def test_a_state_that_the_method_cannot_take_up_is_refused_in_one_line(fault: Exception, told: str) -> None:
    desk = Desk()
    desk.fault = fault
    with pytest.raises(ConfigError, match=f"does not fit this run: {told}$"):
        asyncio.run(desk.conductor.begin())


def test_a_state_that_does_not_fit_a_client_is_refused_before_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    desk.downlink = known(2)
    monkeypatch.setattr(desk.kernel.ledger, "first_dims", lambda client: {"D": 7 if client == "bob" else 2})

    async def play() -> None:
        await desk.conductor.begin()
        await desk.exchange(1, 0)

    with pytest.raises(
        ConfigError, match="--init-from two-0: its state does not fit bob: field 'means': expected D = 7"
    ):
        asyncio.run(play())
    assert desk.stored == []
