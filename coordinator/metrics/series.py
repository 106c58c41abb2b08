"""A run's figures by round, client and exchange, gathered from the lines of its accounts in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from coordinator.metrics.accounts import NO_TRAFFIC
from coordinator.metrics.accuracy import Shares, accuracies_of, merged, total_of
from coordinator.metrics.tally import ClientLine, ExchangeLine, Line, RoundLine, Traffic
from models.methods.exchange import EVALUATION
from models.tasks import is_rule

BAND = (10.0, 90.0)
"""The percentiles of the clients' own accuracies between which their band lies."""

PARTS = ("train", "evaluate", "checkpoint", "encode")
"""What a client's work consists of, in the order in which it is done."""


KINDS = {
    "trainer_peak_rss": "trainer",
    "gpu_peak": "trainer, on the GPU",
    "client_peak_rss": "client",
    "aggregator_peak_rss": "aggregator",
    "coordinator_peak_rss": "coordinator",
}
"""What the peaks of memory in a line are of."""


class Point(NamedTuple):
    """One rule in one completed round: over all samples, the plain mean over clients, and the clients' band."""

    round: int
    weighted: float
    mean: float
    low: float
    high: float
    num_clients: int


@dataclass
class Flow:
    """What an exchange or a client came to over all rounds."""

    up: Traffic = NO_TRAFFIC
    down: Traffic = NO_TRAFFIC
    num_asked: int = 0
    num_accepted: int = 0
    num_refused: int = 0

    @property
    def num_missing(self) -> int:
        """How many updates never came."""
        return self.num_asked - self.num_accepted - self.num_refused

    def book(self, line: ClientLine) -> None:
        """Add one client's exchange."""
        self.up = self.up.plus(line.up)
        self.down = self.down.plus(line.down)
        self.num_asked += 1
        self.num_accepted += line.status == "accepted"
        self.num_refused += line.status == "refused"


@dataclass
class ClientFigures(Flow):
    """One client over all rounds, and how long each of its exchanges took."""

    train_s: list[float] = field(default_factory=list)
    turnaround_s: list[float] = field(default_factory=list)

    def book(self, line: ClientLine) -> None:
        """Add one exchange."""
        super().book(line)
        if line.train_s:
            self.train_s.append(line.train_s)
        if line.turnaround_s is not None:
            self.turnaround_s.append(line.turnaround_s)


Work = dict[str, float]
"""How long each part of a client's work took in a round, in seconds."""


@dataclass
class Series:
    """All of it; what belongs to the evaluation after the last round is in `accuracy` and in no sum.

    Attributes:
        rounds: the lines of the closed rounds, in order.
        accuracy: by rule, its points in order.
        clients: by client id.
        exchanges: by the name of the exchange, in order.
        work: by round and client.
        metrics: what the server half tells, by name and round; of several exchanges of a round the last that is known,
            None where none is.
        null_reasons: why, by round and dotted path.
        shown: the rounds whose exchanges are kept in `timeline`.
        timeline: by round, its lines in order.
        peaks: by kind of process and round, its largest peak of memory where that is known of the round alone.
    """

    rounds: Sequence[RoundLine]
    accuracy: dict[str, list[Point]] = field(default_factory=dict)
    clients: dict[str, ClientFigures] = field(default_factory=dict)
    exchanges: dict[str, Flow] = field(default_factory=dict)
    work: dict[int, dict[str, Work]] = field(default_factory=dict)
    metrics: dict[str, dict[int, float | None]] = field(default_factory=dict)
    null_reasons: dict[int, dict[str, str]] = field(default_factory=dict)
    shown: Mapping[int, str] = field(default_factory=dict)
    timeline: dict[int, list[ClientLine | ExchangeLine]] = field(default_factory=dict)
    peaks: dict[str, dict[int, int]] = field(default_factory=dict)

    @property
    def sent_bytes(self) -> dict[int, int]:
        """Encoded bytes, both ways and of all clients, from the run's start to the end of each round."""
        sums = np.cumsum([line.up.encoded_bytes + line.down.encoded_bytes for line in self.rounds], dtype=np.int64)
        return {line.round: int(total) for line, total in zip(self.rounds, sums, strict=True)}

    @property
    def simulated_at_s(self) -> dict[int, float]:
        """Where the simulated clock stood at the end of each round, nothing without device profiles."""
        return {line.round: line.simulated_at_s for line in self.rounds if line.simulated_at_s is not None}


def gather(rounds: Sequence[RoundLine], lines: Iterable[Line]) -> Series:
    """Return the figures of a run, from the lines of its rounds and all others in their order."""
    series = Series(rounds, shown=typical_rounds(rounds))
    shares: dict[int, dict[str, Shares]] = {}
    for line in lines:
        if isinstance(line, ClientLine):
            _book_client(series, line)
            for score in line.evaluations:
                booked = shares.setdefault(score.round, {})
                booked[line.client] = merged(booked.get(line.client), score)
        elif isinstance(line, ExchangeLine):
            _book_exchange(series, line)
    for line in rounds:
        _book_peaks(series, line)
    completed = [line.round for line in rounds if line.status == "completed"]
    series.accuracy = _accuracy({round: shares[round] for round in completed if round in shares})
    series.clients = dict(sorted(series.clients.items()))
    return series


def typical_rounds(rounds: Sequence[RoundLine]) -> dict[int, str]:
    """Return the completed rounds that a timeline is drawn of, and what each of them is."""
    completed = [line for line in rounds if line.status == "completed"]
    timed = sorted((line.round_s, line.round) for line in completed if line.round_s is not None)
    if not timed:
        return {}
    return {timed[(len(timed) - 1) // 2][1]: "of median duration", timed[-1][1]: "the slowest"}


def median_or_none(durations: Sequence[float]) -> float | None:
    """Return the median, None of nothing."""
    return float(np.median(durations)) if durations else None


def _book_client(series: Series, line: ClientLine) -> None:
    client = series.clients.setdefault(line.client, ClientFigures())
    if line.exchange == EVALUATION:
        return
    client.book(line)
    series.exchanges.setdefault(line.exchange, Flow()).book(line)
    _book_peaks(series, line)
    work = series.work.setdefault(line.round, {}).setdefault(line.client, dict.fromkeys(PARTS, 0.0))
    for part in PARTS:
        work[part] += getattr(line, f"{part}_s") or 0.0
    if line.round in series.shown:
        series.timeline.setdefault(line.round, []).append(line)


def _book_peaks(series: Series, line: ClientLine | RoundLine) -> None:
    for kind in KINDS:
        peak_bytes = getattr(line, f"{kind}_bytes", None)
        if peak_bytes is not None:
            found = series.peaks.setdefault(KINDS[kind], {})
            found[line.round] = max(peak_bytes, found.get(line.round, 0))


def _book_exchange(series: Series, line: ExchangeLine) -> None:
    if line.exchange == EVALUATION:
        return
    if line.round in series.shown:
        series.timeline.setdefault(line.round, []).append(line)
    reasons, told = series.null_reasons.setdefault(line.round, {}), line.null_reasons
    for name, value in line.metrics.items():
        known, path = series.metrics.setdefault(name, {}), f"metrics.{name}"
        if value is not None:
            known[line.round] = value
            reasons.pop(path, None)
        elif known.setdefault(line.round) is None and isinstance(told, dict) and path in told:
            reasons[path] = told[path]


def _accuracy(shares: Mapping[int, Mapping[str, Shares]]) -> dict[str, list[Point]]:
    points: dict[str, list[Point]] = {}
    for round, booked in sorted(shares.items()):
        for rule in filter(is_rule, dict.fromkeys(name for of_client in booked.values() for name in of_client)):
            if total := total_of(rule, booked):
                low, high = np.percentile(list(accuracies_of(rule, booked).values()), BAND)
                point = Point(round, total.weighted, total.mean, float(low), float(high), total.num_clients)
                points.setdefault(rule, []).append(point)
    return points
