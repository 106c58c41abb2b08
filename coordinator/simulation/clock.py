"""The simulated time: what is under way in it, and when it comes.

The clock stands still while clients work here, however long that takes, and then goes on to whatever comes next: an
update, or a moment at which the rounds wait no longer. Without device profiles everything comes at once.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from coordinator.metrics.tally import Cost, Report
from wire.encoding import Packed


class Arrival(NamedTuple):
    """An update under way: it comes at `at`, and its client trains until `trains_until`."""

    at: float
    client: str
    round: int
    exchange: int
    trains_until: float
    packed: Packed
    cost: Cost
    report: Report
    made_at: float
    """When it was made here, by the clock of this machine."""
    misfit: str | None = None
    """Why it cannot be right, None if it can."""


class SimulatedClock:
    """Where the simulated time stands, in seconds from the run's start, and the updates under way."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._under_way: list[Arrival] = []

    def expect(self, arrival: Arrival) -> None:
        """Put an update under way."""
        heapq.heappush(self._under_way, arrival)

    def next_arrival(self) -> float | None:
        """Return when the next update comes, None if there is none under way."""
        return self._under_way[0].at if self._under_way else None

    def take(self) -> Arrival:
        """Go on to the next update, which there must be."""
        arrival = heapq.heappop(self._under_way)
        self.now = max(self.now, arrival.at)
        return arrival

    def go_on_to(self, at: float) -> None:
        """Go on to a moment before the next update."""
        self.now = max(self.now, at)

    def under_way(self) -> list[Arrival]:
        """Return the updates that are yet to come."""
        return list(self._under_way)

    def abandon(self, client: str) -> None:
        """Forget what a client still trains for, as it is asked something else; what it has sent stays under way."""
        kept = [each for each in self._under_way if each.client != client or each.trains_until <= self.now]
        if len(kept) < len(self._under_way):
            heapq.heapify(kept)
            self._under_way = kept
