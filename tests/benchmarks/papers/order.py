"""Whether accuracies stand in the order that a paper has them in, or whether the gaps may be chance."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.benchmarks.result import Claim

RULE = (
    "A gap is told with what of it may be chance: one standard error of a run's tests or, where that is more, half the "
    "spread of the seeds' own gaps. An order holds if all its gaps are more than that, and does not if one is as far "
    "the other way; a lead is held likewise against the points that are claimed. The spread of a single seed is "
    "unknown, so that its verdicts say less."
)


class Gap(NamedTuple):
    """By how many points a row is above another, and how many of them may be chance."""

    points: float
    chance: float


def order(names: Sequence[str], when: str, accuracies: Sequence[Sequence[float]], num_tests: int) -> Claim:
    """Return the claim that rows are above each other, the first highest.

    Args:
        names: the rows'.
        when: what the accuracies are of.
        accuracies: each row's by seed, in percent.
        num_tests: how many samples a run was tested on.
    """
    gaps = [gap(higher, lower, num_tests) for higher, lower in pairwise(accuracies)]
    means = ", ".join(f"{statistics.mean(each):.2f}" for each in accuracies)
    shown = ", ".join(f"{each.points:+.2f} ± {each.chance:.2f}" for each in gaps)
    return Claim(f"{' > '.join(names)}, {when}", holds(gaps), f"{means} %; gaps {shown}")


def lead(
    names: Sequence[str], points: float, when: str, accuracies: Sequence[Sequence[float]], num_tests: int
) -> Claim:
    """Return the claim that the first of two rows is so many points above the other; the arguments as of `order`."""
    higher, lower = accuracies
    found = gap(higher, lower, num_tests)
    is_sure = abs(found.points - points) > found.chance
    text = f"{names[0]} is {points:g} points above {names[1]}, {when}"
    return Claim(text, found.points > points if is_sure else None, f"{found.points:+.2f} ± {found.chance:.2f} points")


def gap(higher: Sequence[float], lower: Sequence[float], num_tests: int) -> Gap:
    """Compare two rows seed by seed: chance is one standard error of the tests, or half the spread of the seeds' gaps.

    The larger of both counts. That of the tests is of the lower row and one run, as runs share test samples.
    """
    points = [one - other for one, other in zip(higher, lower, strict=True)]
    share = statistics.mean(lower) / 100
    of_tests = 100 * math.sqrt(share * (1 - share) / num_tests)
    return Gap(statistics.mean(points), max(of_tests, (max(points) - min(points)) / 2))


def holds(gaps: Sequence[Gap]) -> bool | None:
    """Whether all gaps are more than chance; False if one is as far the other way, None if it cannot be told."""
    if any(each.points < -each.chance for each in gaps):
        return False
    return True if all(each.points > each.chance for each in gaps) else None
