"""Where the time of rounds goes: client by client in one of them, and in all by what their slowest client did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coordinator.metrics.durations import STAGES
from coordinator.metrics.series import PARTS, Series
from coordinator.metrics.tally import ClientLine, ExchangeLine, RoundLine

LINK, WAIT, AGGREGATE, MISSING, COORDINATION = "link and queue", "wait", "aggregate", "no update", "coordination"
UNKNOWN = "not told"


class Span(NamedTuple):
    """Something that took place from one moment of a round to another, in seconds from its opening."""

    what: str
    start_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        """How long it took."""
        return self.end_s - self.start_s


class Lane(NamedTuple):
    """One row of a timeline."""

    name: str
    spans: Sequence[Span]


class Timeline(NamedTuple):
    """All rows of one round, the coordinator's first; `duration_s` is its end."""

    round: int
    duration_s: float
    lanes: Sequence[Lane]


def timeline_of(round: int, lines: Sequence[ClientLine | ExchangeLine], takes_turns: bool) -> Timeline:
    """Return the timeline of one round.

    Args:
        round: its number.
        lines: those of its exchanges, each closed by its `ExchangeLine`.
        takes_turns: whether clients work one after the other, as in a simulation: each then begins at 0 and waits
            for nobody.
    """
    own: list[Span] = []
    lanes: dict[str, list[Span]] = {}
    start_s = 0.0
    for clients, exchange in _exchanges(lines):
        aggregate_s = exchange.aggregate_s or 0.0
        turn_s = max((line.turnaround_s for line in clients if line.turnaround_s is not None), default=0.0)
        end_s = start_s + (turn_s if takes_turns else exchange.exchange_s)
        if aggregate_s and not takes_turns:
            own.append(Span(AGGREGATE, end_s - aggregate_s, end_s))
        for line in clients:
            until_s = start_s if takes_turns else end_s - aggregate_s
            lanes.setdefault(line.client, []).extend(_spans(line, start_s, until_s))
        start_s = end_s
    rows = [Lane(client, spans) for client, spans in sorted(lanes.items())]
    return Timeline(round, start_s, rows if takes_turns else [Lane("coordinator", own), *rows])


def takes_of(line: RoundLine, series: Series, takes_turns: bool) -> list[float]:
    """Return what a round's duration consists of: each of `PARTS` of its slowest client, and the rest.

    In a simulation the parts are those of all clients, who take turns.
    """
    work = series.work.get(line.round, {})
    slowest = max(work.values(), key=lambda parts: sum(parts.values()), default=dict.fromkeys(PARTS, 0.0))
    counted = work.values() if takes_turns else [slowest]
    takes = [sum(parts[part] for parts in counted) for part in PARTS]
    return [*takes, max(0.0, (line.round_s or 0.0) - sum(takes))]


def _exchanges(
    lines: Iterable[ClientLine | ExchangeLine],
) -> Iterable[tuple[list[ClientLine], ExchangeLine]]:
    clients: list[ClientLine] = []
    for line in lines:
        if isinstance(line, ClientLine):
            clients.append(line)
        else:
            yield clients, line
            clients = []


def _spans(line: ClientLine, start_s: float, end_s: float) -> list[Span]:
    """Return a client's spans in one exchange, which ends for it when nobody is waited for any more.

    Where a client has not said for how long it held the task, what it took to be sent and taken in stands behind its
    work; where it has not told all of that, so does the rest.
    """
    if line.status != "accepted":
        return [Span(MISSING, start_s, end_s)] if end_s > start_s else []
    spans, at = [], start_s
    for stage in STAGES[:-1]:
        took = getattr(line, f"{stage}_s") or 0.0
        spans.append(Span(stage, at, at + took))
        at += took
    there = start_s + (line.turnaround_s or 0.0)
    if line.queue_s is None and there > at:
        spans.append(Span(LINK if line.work_s is not None else UNKNOWN, at, there))
        at = there
    if end_s > at:
        spans.append(Span(WAIT, at, end_s))
    return [span for span in spans if span.duration_s > 0]
