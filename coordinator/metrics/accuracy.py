"""Accuracy per rule and round over all clients.

A score is booked to the round that made the model. Those of local rules come with the round itself, those of global
rules with a later round's first exchange or with the evaluation at the end, maybe more than once where a round between
has failed. So a round's scores are kept client by client until a later one has completed, and as sums after that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.metrics.tally import Score


class Share(NamedTuple):
    """How many of one client's test samples a rule got right; each has its own, as samples may change between two."""

    correct: int
    num_test: int


Shares = Mapping[str, Share]
"""What one client has reported of a round in all, by rule."""


class Total(NamedTuple):
    """One rule in one round: over all samples, and the sum of the clients' own accuracies."""

    correct: int = 0
    num_test: int = 0
    sum_of_accuracies: float = 0.0
    num_clients: int = 0

    @property
    def weighted(self) -> float:
        """The mean over clients weighted by test samples."""
        return self.correct / self.num_test

    @property
    def mean(self) -> float:
        """The plain mean over clients."""
        return self.sum_of_accuracies / self.num_clients


class Peak(NamedTuple):
    """The best round (the first of equals), and the last; None before any evaluation."""

    best: float | None = None
    best_round: int | None = None
    last: float | None = None


class Accuracies:
    """The scores of a run; only those of completed rounds count."""

    def __init__(self, rules: Sequence[str]) -> None:
        self._totals: dict[str, dict[int, Total]] = {rule: {} for rule in rules}
        self._latest: dict[str, dict[str, float]] = {rule: {} for rule in rules}
        self._pending: dict[int, dict[str, Shares]] = {}

    def book(self, client: str, scores: Sequence[Score], round: int, base: int) -> None:
        """Take in what a client reported in `round`, when `base` was the last completed one."""
        self._settle(round, base)
        for score in scores:
            pending = self._pending.setdefault(score.round, {})
            pending[client] = merged(pending.get(client), score)

    def peak(self, rule: str, base: int, weighted: bool = True) -> Peak:
        """Return the best and the last accuracy of a rule; `base` is the last completed round."""
        by_round = dict(self._all_totals(rule, base))
        if not by_round:
            return Peak()
        values = {round: total.weighted if weighted else total.mean for round, total in sorted(by_round.items())}
        best_round = max(values, key=lambda round: values[round])
        return Peak(values[best_round], best_round, values[max(values)])

    def latest(self, rule: str, round: int, base: int) -> tuple[int, Total] | None:
        """Return this round and what a rule has come to in it, or that of the last one before that has any."""
        settled = reversed(self._totals.get(rule, {}).items())  # they were settled in their order
        found = dict(itertools.islice((item for item in settled if item[0] <= round), 1))
        found |= {booked: total for booked, total in self._pending_totals(rule, base) if booked <= round}
        return (max(found), found[max(found)]) if found else None

    def num_clients(self, rule: str, base: int) -> dict[str, int | None]:
        """Return how many clients have tested the best round of a rule and the last, by the names of `peak`."""
        found = {round: total.num_clients for round, total in self._all_totals(rule, base)}
        return {"best": found.get(self.peak(rule, base).best_round or 0), "last": found.get(max(found, default=0))}

    def per_client(self, rule: str, base: int) -> dict[str, float]:
        """Return each client's last accuracy, of those that have one."""
        latest = dict(self._latest.get(rule, {}))
        for round in sorted(booked for booked in self._pending if booked <= base):
            latest.update(accuracies_of(rule, self._pending[round]))
        return latest

    def _settle(self, round: int, base: int) -> None:
        """Add up the rounds before `base`, to which nothing more comes, and drop failed ones."""
        for booked in sorted(self._pending):
            if booked < base:
                shares = self._pending.pop(booked)
                for rule, totals in self._totals.items():
                    self._latest[rule].update(accuracies_of(rule, shares))
                    if total := total_of(rule, shares):
                        totals[booked] = total
            elif base < booked < round:
                del self._pending[booked]

    def _all_totals(self, rule: str, base: int) -> Iterator[tuple[int, Total]]:
        yield from self._totals.get(rule, {}).items()
        yield from self._pending_totals(rule, base)

    def _pending_totals(self, rule: str, base: int) -> Iterator[tuple[int, Total]]:
        for booked, shares in self._pending.items():
            if booked <= base and (total := total_of(rule, shares)):
                yield booked, total


def merged(held: Shares | None, score: Score) -> Shares:
    """Return what a client has reported of a round in all, its latest word included."""
    return {**(held or {}), **{rule: Share(correct, score.num_test) for rule, correct in score.correct.items()}}


def accuracies_of(rule: str, shares: Mapping[str, Shares]) -> dict[str, float]:
    """Return each client's accuracy by a rule, of those that have tested it."""
    return {client: share.correct / share.num_test for client, share in _tested(rule, shares).items()}


def total_of(rule: str, shares: Mapping[str, Shares]) -> Total | None:
    """Return one round's total, nothing if nobody has tested this rule."""
    tested = _tested(rule, shares)
    if not tested:
        return None
    num_test = sum(share.num_test for share in tested.values())
    accuracies = accuracies_of(rule, shares)
    accuracy_sum = sum(accuracies[client] for client in sorted(accuracies))
    return Total(sum(share.correct for share in tested.values()), num_test, accuracy_sum, len(tested))


def clients_in_words(summary: Mapping[str, Any]) -> list[str]:
    """Return by how many clients a summary's accuracies were tested, a line for those alike, none if by all of them."""
    num_clients = summary["num_clients"]
    alike: dict[tuple[int, int], list[str]] = {}
    for rule, accuracy in summary["accuracy_by_rule"].items():
        counts = accuracy.get("num_clients") or {}
        best, last = counts.get("best"), counts.get("last")
        if best and last and (best, last) != (num_clients, num_clients):
            alike.setdefault((best, last), []).append(rule)
    return [f"{', '.join(rules)}: {_testers(*counts, num_clients)}" for counts, rules in alike.items()]


def _testers(best: int, last: int, num_clients: int) -> str:
    if best == last:
        return f"tested by {best} of {num_clients} clients"
    return f"best and last are of different clients: {best} and {last} of {num_clients}"


def _tested(rule: str, shares: Mapping[str, Shares]) -> dict[str, Share]:
    return {client: of[rule] for client, of in shares.items() if rule in of and of[rule].num_test}
