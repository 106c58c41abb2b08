"""What is kept of a wait for those who ask from outside."""

from __future__ import annotations

from coordinator.clients.awaited import Wait
from coordinator.clients.waiting import FIRST_NOTE_S, STORE_EVERY_S, Presence, PresenceWatch

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
