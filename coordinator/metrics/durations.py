"""What the time of one client's exchange consists of; every duration is on the clock of one side alone.

The coordinator knows when the task went, when the update came and when no more were waited for; the client for how long
it held the task, and its parts of that. What is left of the turnaround is travel. How much of it was the way down
cannot be measured without comparing clocks, so it is estimated, see `split_travel`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import NamedTuple

from coordinator.metrics.tally import ClientLine, ExchangeLine, Report
from wire.timing import together_s

STAGES = ("queue", "downlink", "train", "evaluate", "checkpoint", "encode", "uplink", "wait")
"""What a client's exchange consists of, in the order in which it happens; each is `<part>_s` of its line."""

_AGGREGATE = "aggregate"
_stages_of = operator.attrgetter(*(f"{part}_s" for part in STAGES))


class Moments(NamedTuple):
    """When something happened to a client's exchange here, None where that is not known."""

    opened_at: float
    sent_at: float | None
    accepted_at: float | None
    closing_at: float | None


class Durations(NamedTuple):
    """The durations of a client's exchange beside its work; see `tally.ClientLine`."""

    turnaround_s: float | None
    queue_s: float | None
    downlink_s: float | None
    uplink_s: float | None
    wait_s: float | None


def durations_of(moments: Moments, report: Report, down_bytes: int, up_bytes: int, rtt_s: float | None) -> Durations:
    """Return the durations of an exchange; those that the client has a part in are known if it told its own."""
    turnaround_s = duration_s(moments.sent_at, moments.accepted_at)
    wait_s = duration_s(moments.accepted_at, moments.closing_at)
    if turnaround_s is None or report.held_s is None:
        return Durations(turnaround_s, None, None, None, wait_s)
    idle_s = None if report.work_s is None else max(0.0, report.held_s - report.work_s)
    queue_s = together_s(duration_s(moments.opened_at, moments.sent_at), idle_s)
    down_s, up_s = split_travel(turnaround_s - report.held_s, down_bytes, up_bytes, rtt_s or 0.0)
    return Durations(turnaround_s, queue_s, down_s, up_s, wait_s)


def split_travel(travel_s: float, down_bytes: int, up_bytes: int, rtt_s: float) -> tuple[float, float]:
    """Share out the time that a task and its update travelled.

    Each way has half the round-trip time, and of what is left a share by its bytes, as if the link were as fast one way
    as the other.
    """
    travel_s = max(0.0, travel_s)
    half_s = min(rtt_s, travel_s) / 2
    rest_s = travel_s - 2 * half_s
    down_s = half_s + rest_s * down_bytes / max(1, down_bytes + up_bytes)
    return down_s, travel_s - down_s


def duration_s(start: float | None, end: float | None) -> float | None:
    """Return the time between two moments, None if one is not known."""
    return None if start is None or end is None else end - start


class MeanDurations:
    """The mean of each part over all clients and exchanges of rounds, and how long the server half took."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys((*STAGES, _AGGREGATE), 0.0)
        self._counts = dict.fromkeys(self._sums, 0)

    def book(self, line: ClientLine | ExchangeLine) -> None:
        """Add the parts that a line knows."""
        told: Iterable[tuple[str, float | None]]
        if isinstance(line, ExchangeLine):
            told = [(_AGGREGATE, line.aggregate_s)]
        else:
            told = zip(STAGES, _stages_of(line), strict=True)
        sums, counts = self._sums, self._counts
        for part, took_s in told:
            if took_s is not None:
                sums[part] += took_s
                counts[part] += 1

    def means(self) -> dict[str, float | None]:
        """Return the means in seconds, None of what was never known."""
        return {part: total / self._counts[part] if self._counts[part] else None for part, total in self._sums.items()}
