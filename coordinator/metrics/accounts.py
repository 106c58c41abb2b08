"""The accounts of an exchange and of a round while they are open."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from coordinator.metrics.byte_prediction import Prediction
from coordinator.metrics.durations import Moments, duration_s, durations_of
from coordinator.metrics.links import LinkCounts
from coordinator.metrics.tally import Answer, ClientLine, Cost, Report, Score, Traffic
from wire.messages import Evaluation
from wire.payload import Sizes
from wire.timing import together_s

Predict = Callable[[str], Prediction | None]
"""What an exchange of this client should cost, None if nothing is known of it."""

Examine = Callable[[str, Sequence[Evaluation]], list[Score]]
"""Which of the evaluations that this client tells can be."""

LinkOf = Callable[[str], LinkCounts | None]
"""What the kernel has counted of this client by now, None if it does not say."""


NO_TRAFFIC = Traffic()
NO_REPORT = Report()


class Entry(msgspec.Struct):
    """One client in an open exchange; what happened before a restart has no time."""

    down: Traffic = NO_TRAFFIC
    up: Traffic = NO_TRAFFIC
    sent: bool = False
    answer: Answer = "missing"
    sent_at: float | None = None
    accepted_at: float | None = None
    report: Report = NO_REPORT
    computed_by: str = ""
    link: LinkCounts | None = None


class ExchangeAccount:
    """What happens in an open exchange, client by client; `base` is the round that made the global state it sends.

    `link_of` is asked at its beginning; where it knows nothing of a client, bytes on the wire are computed. With
    `takes_turns` clients work one after the other, and none waits for others.
    """

    def __init__(
        self,
        round: int,
        index: int,
        name: str,
        base: int,
        cohort: Sequence[str],
        opened_at: float,
        link_of: LinkOf,
        takes_turns: bool = False,
    ) -> None:
        self.round = round
        self.index = index
        self.name = name
        self.opened_at = opened_at
        self._base = base
        self._takes_turns = takes_turns
        self._closing_at: float | None = None
        self._entries = {client: Entry(link=link_of(client)) for client in sorted(cohort)}

    @property
    def accepted(self) -> list[str]:
        """The clients whose updates were accepted."""
        return [client for client, entry in self._entries.items() if entry.answer == "accepted"]

    def was_asked(self, client: str) -> bool:
        """Say whether the client's task is counted."""
        return self._entries[client].sent

    def task_sent(self, client: str, cost: Cost, at: float | None) -> None:
        """Count a downlink; a repeated one only as bytes on the wire."""
        entry = self._entries[client]
        if entry.sent:
            entry.down = entry.down.plus(Traffic.of_repeat(cost))
        else:
            entry.sent, entry.sent_at, entry.down = True, at, Traffic.of(cost)

    def update_accepted(self, client: str, cost: Cost, report: Report, at: float | None, computed_by: str = "") -> None:
        """Count an update and what its client says of it, and what has computed it."""
        entry = self._entries[client]
        entry.answer, entry.accepted_at, entry.up, entry.report = "accepted", at, Traffic.of(cost), report
        entry.computed_by = computed_by

    def update_refused(self, client: str) -> None:
        """Note that what came of a client cannot be right."""
        self._entries[client].answer = "refused"

    @property
    def is_closing(self) -> bool:
        """Whether no more updates are waited for."""
        return self._closing_at is not None

    def close_at(self, at: float) -> None:
        """Note since when no more updates are waited for."""
        self._closing_at = at

    def aggregate_s(self, at: float) -> float | None:
        """Return for how long the server half has worked by now."""
        return duration_s(self._closing_at, at)

    def lines(self, predict: Predict, examine: Examine, links: Mapping[str, LinkCounts]) -> list[ClientLine]:
        """Return one line per client; `links` are what the kernel has counted by now."""
        return [
            self._line(client, entry, predict(client), examine(client, entry.report.evaluations), links.get(client))
            for client, entry in self._entries.items()
        ]

    def _line(
        self, client: str, entry: Entry, predicted: Prediction | None, scores: list[Score], link: LinkCounts | None
    ) -> ClientLine:
        report = entry.report
        up, down = _counted(entry, link)
        closing_at = None if self._takes_turns else self._closing_at
        moments = Moments(self.opened_at, entry.sent_at, entry.accepted_at, closing_at)
        rtt_s = entry.link.rtt_s if entry.link is not None else None
        took = durations_of(moments, report, entry.down.encoded_bytes, entry.up.encoded_bytes, rtt_s)
        return ClientLine(
            round=self.round,
            exchange=self.name,
            exchange_index=self.index,
            base=self._base,
            client=client,
            status=entry.answer,
            up=_beside(up, predicted and predicted.up) if entry.answer == "accepted" else up,
            down=_beside(down, predicted and predicted.down) if entry.sent else down,
            train_s=report.train_s,
            evaluate_s=report.evaluate_s,
            checkpoint_s=report.checkpoint_s,
            encode_s=report.encode_s,
            turnaround_s=took.turnaround_s,
            queue_s=took.queue_s,
            downlink_s=took.downlink_s,
            uplink_s=took.uplink_s,
            wait_s=took.wait_s,
            client_peak_rss_bytes=report.client_peak_rss_bytes,
            trainer_peak_rss_bytes=report.trainer_peak_rss_bytes,
            gpu_peak_bytes=report.gpu_peak_bytes,
            energy_j=report.energy_j,
            evaluations=scores,
            num_left_out=len(report.evaluations) - len(scores),
            computed_by=entry.computed_by,
        )


class RoundAccount(msgspec.Struct):
    """The sums of a round that is not closed, or of the evaluation; `status` is that of each client's last line."""

    up: Traffic = NO_TRAFFIC
    down: Traffic = NO_TRAFFIC
    num_accepted: int = 0
    work_s: dict[str, float | None] = msgspec.field(default_factory=dict)
    status: dict[str, str] = msgspec.field(default_factory=dict)
    new_classes: set[int] = msgspec.field(default_factory=set)
    metrics: dict[str, float | None] = msgspec.field(default_factory=dict)

    def book(self, line: ClientLine) -> None:
        """Add one client's exchange."""
        self.up = self.up.plus(line.up)
        self.down = self.down.plus(line.down)
        if line.status == "accepted":
            self.num_accepted += 1
            self.work_s[line.client] = together_s(self.work_s.get(line.client, 0.0), line.work_s)
        self.status[line.client] = line.status

    @property
    def num_ok(self) -> int:
        """Clients whose update of the last exchange was accepted."""
        return sum(status == "accepted" for status in self.status.values())

    @property
    def num_failed(self) -> int:
        """The other clients of the cohort."""
        return len(self.status) - self.num_ok

    def coordination_s(self, round_s: float | None) -> float | None:
        """Return what is left of the round's duration without its slowest client's work, if all have told theirs."""
        known_s = [work_s for work_s in self.work_s.values() if work_s is not None]
        if round_s is None or len(known_s) < len(self.work_s):
            return None
        return max(0.0, round_s - max(known_s, default=0.0))


def finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Return metrics as JSON can hold them."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def why_unknown(metrics: Mapping[str, float]) -> dict[str, str] | msgspec.UnsetType:
    """Return by dotted path why a metric is null in `finite`, nothing that would be written if all are known."""
    reasons = {f"metrics.{name}": f"aggregate returned {of}" for name, of in metrics.items() if not math.isfinite(of)}
    return reasons or msgspec.UNSET


def _counted(entry: Entry, now: LinkCounts | None) -> tuple[Traffic, Traffic]:
    """Return what went up and down, with what the kernel has counted since the exchange was opened if it says."""
    before = entry.link
    if before is None or now is None:
        return entry.up, entry.down
    up, down = now.up_bytes - before.up_bytes, now.down_bytes - before.down_bytes
    return entry.up.counted(up), entry.down.counted(down)


def _beside(measured: Traffic, predicted: Sizes | None) -> Traffic:
    """Put the prediction beside what was measured."""
    elements, payload_bytes = predicted or (None, None)
    return msgspec.structs.replace(measured, predicted_elements=elements, predicted_payload_bytes=payload_bytes)
