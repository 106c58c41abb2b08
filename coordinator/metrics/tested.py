"""What an accuracy is of: the round whose model was tested, and how many clients tested it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.metrics.accuracy import Accuracies


class CountedAccuracies(Accuracies):
    """The scores of a run, and what its accuracies are of."""

    def latest_round(self, rule: str, round: int, base: int) -> int:
        """Return the round that `latest` is of, 0 where that is None."""
        settled = next((booked for booked in reversed(self._totals.get(rule, {})) if booked <= round), 0)
        pending = [booked for booked, _ in self._pending_totals(rule, base) if booked <= round]
        return max(pending, default=settled)

    def num_clients(self, rule: str, base: int) -> dict[str, int | None]:
        """Return how many clients have tested the best round of a rule and the last, by the names of `peak`."""
        found = {round: total.num_clients for round, total in self._all_totals(rule, base)}
        return {"best": found.get(self.peak(rule, base).best_round or 0), "last": found.get(max(found, default=0))}


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
