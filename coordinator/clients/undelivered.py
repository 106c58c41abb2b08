"""Messages that could not be sent, by client: all are counted, and people are told of each client once a round."""

from __future__ import annotations

from collections.abc import Callable, Mapping

PEER = "a peer"
"""Whoever is at the other end of a connection that no client speaks by."""


class Undelivered:
    """The counts of one run; `note` is given the lines, and `put` the counts whenever there is a line."""

    def __init__(
        self, counts: Mapping[str, int], note: Callable[[str], None], put: Callable[[Mapping[str, int]], None]
    ) -> None:
        """Go on from these counts."""
        self.counts = dict(counts)
        self._note = note
        self._put = put
        self._told_in: dict[str, int] = {}

    def add(self, client: str, round: int) -> None:
        """Count a message to this client, `""` for nobody's connection, in this round."""
        name = client or PEER
        self.counts[name] = self.counts.get(name, 0) + 1
        if self._told_in.get(name) != round:
            self._told_in[name] = round
            self._note(f"{name}: a message could not be delivered in round {round}")
            self._put(self.counts)
