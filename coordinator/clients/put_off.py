"""Clients that are not let in for now, as another has their part of the run's data; either may be the wrong one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

FORGOTTEN_S = 60.0
"""A client that has not asked again for so long waits no more; the pause between two attempts is 20 s at most."""


class _Wait(NamedTuple):
    told: str
    until: float


class PutOff:
    """Who waits outside, and for whom; `note` is given a line for people, once of each pair and part."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """Begin with nobody."""
        self._note = note
        self._noted: set[str] = set()
        self._waits: dict[str, _Wait] = {}

    @property
    def why(self) -> Mapping[str, str]:
        """What each client that waits outside waits for, in words."""
        return {client: wait.told for client, wait in self._waits.items()}

    def add(self, client: str, holder: str, index: int, at: float) -> str:
        """Put a client off, as another is here with its part; return why, for the client."""
        reason = f"{client} and {holder} have [data] index = {index}: expected another part for each client"
        self._waits[client] = _Wait(f"[data] index = {index}, which {holder} has", at + FORGOTTEN_S)
        if reason not in self._noted:
            self._noted.add(reason)
            self._note(f"{reason}; {client} comes in once {holder} has left: correct whichever is wrong")
        return reason

    def came(self, client: str) -> None:
        """A client is let in."""
        self._waits.pop(client, None)

    def tick(self, at: float) -> None:
        """Time has passed."""
        self._waits = {client: wait for client, wait in self._waits.items() if at < wait.until}

    def next_wakeup(self) -> float | None:
        """Return when the next `tick` is due."""
        return min((wait.until for wait in self._waits.values()), default=None)
