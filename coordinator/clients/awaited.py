"""Whom and what a run waits for, why where that is known, and for how long: a line for people."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from coordinator.rounds import Phase, Rounds

MAX_WHY = 100
"""Characters of why a client is away: it may have said so itself."""


class Guests(Protocol):
    """Who is here, and who was."""

    @property
    def clients(self) -> Collection[str]:
        """The ids of those who are connected."""

    @property
    def away(self) -> Mapping[str, str]:
        """Why each client is gone that was here."""

    def heard_at(self) -> Mapping[str, float]:
        """Return when each of those who are connected was last heard."""


class Wait(NamedTuple):
    """What a run waits for: `until` then if nothing happens, and never beyond `at_most`, by the rounds' clock."""

    what: str
    limit: str = ""
    until: float | None = None
    at_most: float | None = None

    def line(self, at: float) -> str:
        """Return it in words, as of `at`."""
        if self.until is None or self.at_most is None:
            return self.what
        left_s, most_s = (max(0, math.ceil(moment - at)) for moment in (self.until, self.at_most))
        end = f"{left_s} s at most" if left_s >= most_s else f"{left_s} s, or in {most_s} s while there is progress"
        return f"{self.what}, {self.limit} {end}"


def awaited(machine: Rounds, guests: Guests) -> Wait:
    """Return what a run waits for now."""
    ends = machine.next_wakeup(), machine.waits_until()
    if machine.phase is Phase.COLLECTING:
        return Wait(_updates(machine, guests.away), "until the deadline in", *ends)
    if machine.phase is not Phase.WAITING:
        return Wait("nothing: the run is over" if machine.phase is Phase.OVER else "waiting for the aggregator")
    ended = machine.conclusion()
    if ended is None:
        return Wait(_clients(machine, guests.clients), "for", *ends)
    told = f"the run ends ({ended.reason or ended.outcome}) and waits until its clients have heard of it"
    return Wait(told, "for", *ends)


def _updates(machine: Rounds, away: Mapping[str, str]) -> str:
    whys = {client: f" ({why:.{MAX_WHY}})" for client, why in away.items()}
    missing = [client + whys.get(client, "") for client in sorted(machine.missing)]
    refused = f"; refused: {', '.join(sorted(machine.refused))}" if machine.refused else ""
    count = f"{len(machine.answered)}/{len(machine.cohort)}"
    return f"waiting for updates {count}, missing {', '.join(missing)}{refused}"


def _clients(machine: Rounds, here: Collection[str]) -> str:
    num_loading = len(set(here) - machine.ready)
    loading = f"; {num_loading} more joined and are loading data and model" if num_loading else ""
    return f"waiting for clients {len(machine.ready)}/{machine.num_needed} ({machine.needed_by}){loading}"
