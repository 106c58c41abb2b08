"""What is kept of a wait for those who ask from outside, and when people are told of it."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace

import pytest

from coordinator.clients import waiting
from coordinator.clients.awaited import Wait, awaited
from coordinator.clients.waiting import FIRST_NOTE_S, STORE_EVERY_S, Presence, PresenceWatch, tell_waiting
from coordinator.round_rules import Position
from coordinator.rounds import RETURN_S
from tests.coordinator.round_driver import Guests, Run

NOW_S = 1000.0
"""What the clock of the day says, whatever is monotonic."""


class Watched:
    """A watch, and what it has stored."""

    def __init__(self) -> None:
        self.stored: list[Presence] = []
        self._watch = PresenceWatch(self.stored.append, clock=lambda: NOW_S)

    def look(self, waits_for: str, heard_at: dict[str, float], at: float, ready: frozenset[str] = frozenset()) -> int:
        """Look, and return how often something has been stored by now."""
        self._watch.look(Wait(waits_for), heard_at, ready, at)
        return len(self.stored)


def test_who_is_here_is_stored_at_once_when_somebody_comes_is_ready_or_goes() -> None:
    watched, ready = Watched(), frozenset({"ann"})
    assert watched.look("clients 0/2", {}, 5.0) == 1
    assert watched.look("clients 0/2", {"ann": 5.4}, 5.5) == 2
    assert watched.look("clients 0/2", {"ann": 5.4}, 6.0) == 2
    assert watched.look("clients 0/2", {"ann": 6.4}, 6.5, ready) == 3
    assert watched.look("clients 0/2", {}, 7.0) == 4
    assert watched.stored == [
        Presence(NOW_S, "clients 0/2"),
        Presence(NOW_S, "clients 0/2", {"ann": NOW_S + 5.4 - 5.5}),
        Presence(NOW_S, "clients 0/2", {"ann": NOW_S + 6.4 - 6.5}, ready),
        Presence(NOW_S, "clients 0/2", gone_at_s={"ann": NOW_S + 6.4 - 6.5}),
    ]


def test_what_is_waited_for_and_when_each_was_heard_are_stored_now_and_then() -> None:
    watched = Watched()
    assert watched.look("updates 0/2", {"ann": 5.0}, 5.0) == 1
    assert watched.look("updates 1/2", {"ann": 5.0}, 5.0 + 0.9 * FIRST_NOTE_S) == 1
    assert watched.look("updates 1/2", {"ann": 5.0}, 5.0 + FIRST_NOTE_S) == 2
    assert watched.look("updates 1/2", {"ann": 8.0}, 5.0 + 0.9 * STORE_EVERY_S) == 2
    assert watched.look("updates 1/2", {"ann": 8.0}, 5.0 + FIRST_NOTE_S + STORE_EVERY_S) == 3
    assert watched.stored[-1].silent_s("ann") == STORE_EVERY_S


def test_who_went_and_came_back_is_not_gone() -> None:
    watched = Watched()
    for at, here in ((5.0, {"ann": 5.0}), (6.0, {}), (7.0, {"ann": 7.0})):
        watched.look("", here, at)
    assert watched.stored[-1] == Presence(NOW_S, heard_at_s={"ann": NOW_S})
    assert watched.stored[-1].silent_s("bob") is None


def test_that_time_passes_is_no_change() -> None:
    stored: list[Presence] = []
    watch = PresenceWatch(stored.append)
    wait = Wait("clients 0/2", "for", 60.0, 60.0)
    for at in (0.0, 3.0, 6.0, STORE_EVERY_S):
        watch.look(wait, {}, frozenset(), at)
    assert [each.waits_for for each in stored] == ["clients 0/2, for 60 s at most", "clients 0/2, for 50 s at most"]


class Late:
    """A loop on a clock of plain numbers, on which each sleep is a little longer than it should; it ends in time."""

    LATE_S = 0.01

    def __init__(self, end: float) -> None:
        self.at = 100.0
        self._end = self.at + end

    def get_running_loop(self) -> SimpleNamespace:
        return SimpleNamespace(time=lambda: self.at)

    async def sleep(self, seconds: float) -> None:
        self.at += seconds + self.LATE_S
        if self.at >= self._end:
            raise asyncio.CancelledError


def told_in(run: Run, loop: Late, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return when people are told until a loop's end, from its beginning on."""
    began, told, guests = loop.at, list[float](), Guests()
    monkeypatch.setattr(waiting, "asyncio", loop)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(
            tell_waiting(
                lambda: awaited(run.rounds, guests),
                run.rounds,
                guests,
                lambda text: told.append(loop.at - began),
                lambda presence: None,
            )
        )
    return told


def test_people_are_told_soon_and_then_every_30_s(monkeypatch: pytest.MonkeyPatch) -> None:
    told = told_in(Run(), Late(end=100.0), monkeypatch)
    assert told == pytest.approx([3.0, 33.0, 63.0, 93.0], abs=0.3)
    assert max(after - before for before, after in itertools.pairwise(told)) <= 30.0 + 2 * Late.LATE_S


def test_nobody_is_told_of_a_run_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(Position(4, base=3, failed_in_a_row=3, is_told=False))
    run.tick(0.0)
    run.tick(RETURN_S)
    assert told_in(run, Late(end=100.0), monkeypatch) == []
