"""What is kept of a wait for those who ask from outside."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.waiting import STORE_EVERY_S, Presence


def test_who_is_here_is_stored_on_a_change_and_now_and_then() -> None:
    stored: list[tuple[str, Mapping[str, float]]] = []
    presence = Presence(lambda text, heard_at_s: stored.append((text, heard_at_s)), clock=lambda: 1000.0)
    presence.look("clients 0/2", {}, 5.0)
    presence.look("clients 0/2", {"ann": 6.0}, 6.0)
    presence.look("clients 1/2", {"ann": 6.5}, 7.0)
    assert stored == [("clients 0/2", {}), ("clients 1/2", {"ann": 999.5})]
    presence.look("clients 1/2", {"ann": 7.0}, 7.0 + STORE_EVERY_S)
    assert stored[2:] == [("clients 1/2", {"ann": 990.0})]
