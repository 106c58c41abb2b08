"""Messages that could not be sent: counted by client, told of with the round."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.clients.undelivered import Undelivered


def test_all_are_counted_over_restarts_and_each_client_is_told_of_once_a_round() -> None:
    notes: list[str] = []
    stored: list[Mapping[str, int]] = []
    undelivered = Undelivered({"ann": 2}, notes.append, lambda counts: stored.append(dict(counts)))
    for client, round in [("ann", 1), ("ann", 1), ("", 1), ("ann", 2)]:
        undelivered.add(client, round)
    assert undelivered.counts == {"ann": 5, "a peer": 1}
    assert stored == [{"ann": 3}, {"ann": 4, "a peer": 1}, {"ann": 5, "a peer": 1}]
    assert notes == [
        "ann: a message could not be delivered in round 1",
        "a peer: a message could not be delivered in round 1",
        "ann: a message could not be delivered in round 2",
    ]
