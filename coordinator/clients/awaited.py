"""Whom and what a run waits for, why where that is known, and for how long: a line for people."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from coordinator.clients.membership import SILENT
from coordinator.rounds import Phase, Rounds

MAX_WHY = 100
"""Characters of why a client is away: it may have said so itself."""

MAX_GONE = 5
"""So many clients that are gone are named; more are counted."""


FOR_SPACE = "waiting for space on the disk"
"""What every run waits for whose disk is full, whatever else it lacks."""


class Guests(Protocol):
    """Who is here, and who was."""

    @property
    def clients(self) -> Collection[str]:
        """The ids of those who are connected."""

    @property
    def away(self) -> Mapping[str, str]:
        """Why each client is gone that was here."""

    @property
    def put_off(self) -> Mapping[str, str]:
        """What each client that is not let in for now waits for."""

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


def awaited(machine: Rounds, guests: Guests, is_short: bool = False) -> Wait:
    """Return what a run waits for now; `is_short` where its disk is full."""
    if is_short:
        return Wait(FOR_SPACE)
    ends = machine.next_wakeup(), machine.waits_until()
    if machine.phase is Phase.COLLECTING:
        return Wait(_updates(machine, guests.away), "until the deadline in", *ends)
    if machine.phase is not Phase.WAITING:
        return Wait("nothing: the run is over" if machine.phase is Phase.OVER else "waiting for the aggregator")
    ended = machine.conclusion()
    if ended is None:
        return Wait(_clients(machine, guests), "for", *ends)
    told = f"the run ends ({ended.reason or ended.outcome}) and waits until its clients have heard of it"
    return Wait(told, "for", *ends)


def _updates(machine: Rounds, away: Mapping[str, str]) -> str:
    missing = [_named(client, away) for client in sorted(machine.missing)]
    refused = f"; refused: {', '.join(sorted(machine.refused))}" if machine.refused else ""
    count = f"{len(machine.answered)}/{len(machine.cohort)}"
    return f"waiting for updates {count}, missing {', '.join(missing)}{refused}"


def _clients(machine: Rounds, guests: Guests) -> str:
    num_loading = len(set(guests.clients) - machine.ready)
    loading = f"; {num_loading} more joined and are loading data and model" if num_loading else ""
    here = f"{len(machine.ready)}/{machine.num_needed} ({machine.needed_by})"
    return f"waiting for clients {here}{loading}{_put_off(guests.put_off)}{_gone(guests.away)}"


def _put_off(why: Mapping[str, str]) -> str:
    """Say who would come in if another were not here."""
    named = [f"{client} waits for {why[client]}" for client in sorted(why)[:MAX_GONE]]
    more = [f"{len(why) - MAX_GONE} more wait so"] if len(why) > MAX_GONE else []
    return f"; {', '.join([*named, *more])}" if why else ""


def _gone(away: Mapping[str, str]) -> str:
    """Say who was here and is no more."""
    named = [_named(client, away) for client in sorted(away)[:MAX_GONE]]
    more = [f"{len(away) - MAX_GONE} more"] if len(away) > MAX_GONE else []
    return f"; gone: {', '.join([*named, *more])}" if away else ""


def _named(client: str, away: Mapping[str, str]) -> str:
    """Name a client, with why it is away if it is; for how long it had been silent by then is no longer true."""
    why = away.get(client, "")
    why = SILENT if why.startswith(f"{SILENT} for ") else why
    return f"{client} ({why:.{MAX_WHY}})" if why else client
