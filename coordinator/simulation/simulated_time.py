"""The simulated time of a run with device profiles, which says how long the run would have taken on devices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from coordinator.metrics.tally import RoundLine


def simulated_times(rounds: Sequence[RoundLine], best_round: int | None) -> dict[str, Any]:
    """Return how long rounds took on the simulated clock, and when the best one was closed; nothing if there is none.

    A round begins when the one before it is closed, so that waiting for clients is part of it.
    """
    ends_s = {line.round: line.simulated_at_s for line in rounds if line.simulated_at_s is not None}
    if not ends_s:
        return {}
    taken_s = [end - begin for begin, end in pairwise([0.0, *ends_s.values()])]
    return {
        "total_s": max(ends_s.values()),
        "round_s": {"median": float(np.median(taken_s)), "p95": float(np.percentile(taken_s, 95))},
        "to_best_accuracy_s": ends_s.get(best_round or 0),
    }
