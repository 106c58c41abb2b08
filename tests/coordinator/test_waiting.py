"""What is kept of a wait for those who ask from outside."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.awaited import Wait
from coordinator.waiting import STORE_EVERY_S, Presence


def test_who_is_here_is_stored_on_a_change_and_now_and_then() -> None:
    stored: list[tuple[str, Mapping[str, float]]] = []
    presence = Presence(lambda text, heard_at_s: stored.append((text, heard_at_s)), clock=lambda: 1000.0)
    presence.look(Wait("clients 0/2"), {}, 5.0)
    presence.look(Wait("clients 0/2"), {"ann": 6.0}, 6.0)
    presence.look(Wait("clients 1/2"), {"ann": 6.5}, 7.0)
    assert stored == [("clients 0/2", {}), ("clients 1/2", {"ann": 999.5})]
    presence.look(Wait("clients 1/2"), {"ann": 7.0}, 7.0 + STORE_EVERY_S)
    assert stored[2:] == [("clients 1/2", {"ann": 990.0})]


def test_that_time_passes_is_no_change() -> None:
    stored: list[str] = []
    presence = Presence(lambda text, _: stored.append(text))
    wait = Wait("clients 0/2", "for", 60.0, 60.0)
    for at in (0.0, 3.0, 6.0, STORE_EVERY_S):
        presence.look(wait, {}, at)
    assert stored == ["clients 0/2, for 60 s at most", "clients 0/2, for 50 s at most"]
