"""Which of the clients that are free a run may have: one for each part of its data; and who keeps whom out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from coordinator.clients.device import data_index
from coordinator.clients.foyer import Guest

MOST_TOLD = 5
"""More clients of one part, or more such parts, are told as a number."""


class Choice(NamedTuple):
    """Who may be brought in, by id; and in words, for each part of the data that several have, who these are."""

    free: list[Guest]
    twins: list[str]


class TwinNotes:
    """Tells people once of each part of the data that several clients have who these are."""

    def __init__(self, note: Callable[[str], None]) -> None:
        """Begin; `note` is given the lines."""
        self._note = note
        self._told: set[str] = set()

    def tell(self, choice: Choice) -> None:
        """Tell what is news."""
        for twins in choice.twins:
            if twins not in self._told:
                self._told.add(twins)
                expected = "expected another part for each client; a run has one of them: correct whichever is wrong"
                self._note(f"{twins}: {expected}")


def choose(candidates: Iterable[Guest], members: Iterable[Guest] = ()) -> Choice:
    """Return who of the candidates may join the members, the smallest id of each part that no member has."""
    free: list[Guest] = []
    holders: dict[int, list[str]] = {}
    for member in members:
        _add(holders, member)
    for guest in sorted(candidates, key=lambda guest: guest.client):
        if _add(holders, guest):
            free.append(guest)
    return Choice(free, _told_of(holders))


def _add(holders: dict[int, list[str]], guest: Guest) -> bool:
    """Note whose part of the data a guest has; return whether it is the first that has it."""
    index = data_index(guest.device)
    if index is None:
        return True
    others = holders.setdefault(index, [])
    others.append(guest.client)
    return len(others) == 1


def _told_of(holders: dict[int, list[str]]) -> list[str]:
    shared = [(index, sorted(clients)) for index, clients in sorted(holders.items()) if len(clients) > 1]
    told = [f"{_named(clients)} have [data] index = {index}" for index, clients in shared[:MOST_TOLD]]
    return told + ([f"{len(shared) - MOST_TOLD} more parts that several have"] if len(shared) > MOST_TOLD else [])


def _named(clients: list[str]) -> str:
    if len(clients) > MOST_TOLD:
        return f"{len(clients)} clients"
    return f"{', '.join(clients[:-1])} and {clients[-1]}"
