"""What the run's accounts are made of: the cost of a message, sums of costs, and the lines that record them.

A line is a JSON object of one of three kinds: what one client's exchange came to (`client`), what the server half made
of an exchange (`exchange`), and how a round ended (`round`). The accounts take in nothing but lines, so those that were
stored rebuild them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from wire.encoding import Frames, Packed, encoded_bytes
from wire.framing import framed_bytes
from wire.messages import Evaluation
from wire.timing import Timing, seconds, together_s

Status = Literal["completed", "failed"]

Answer = Literal["accepted", "refused", "missing"]
"""What came of a client in an exchange: an update, one that cannot be right, or none."""

MAX_ENERGY_J = 1e9
"""No device takes more for an exchange, whatever its client says."""


class Cost(NamedTuple):
    """What one message cost; `wire_bytes` is None where nothing travels (simulation)."""

    elements: int
    payload_bytes: int
    encoded_bytes: int
    wire_bytes: int | None

    @classmethod
    def of(cls, packed: Packed, frames: Frames, is_encrypted: bool) -> Cost:
        """Return what a message with a payload costs that travels in these frames."""
        sizes = packed.sizes
        return cls(sizes.elements, sizes.payload_bytes, encoded_bytes(frames), framed_bytes(frames, is_encrypted))


class Traffic(msgspec.Struct, frozen=True):
    """Costs added up; None where one of the summands is unknown.

    A message sent again to the same client in the same exchange adds to `wire_bytes` and to `resent_bytes`, which are
    encoded bytes, and to nothing else. Of a closed exchange `wire_bytes` are what the kernel counted on the client's
    connections while it was open, heartbeats and handshakes in that time included; where it does not say, they are
    computed from the messages, as `computed_wire_bytes` are in any case.
    """

    elements: int = 0
    predicted_elements: int | None = 0
    payload_bytes: int = 0
    predicted_payload_bytes: int | None = 0
    encoded_bytes: int = 0
    wire_bytes: int | None = 0
    computed_wire_bytes: int = 0
    resent_bytes: int = 0

    def plus(self, other: Traffic) -> Traffic:
        """Return the sum."""
        return Traffic(
            elements=self.elements + other.elements,
            predicted_elements=_sum(self.predicted_elements, other.predicted_elements),
            payload_bytes=self.payload_bytes + other.payload_bytes,
            predicted_payload_bytes=_sum(self.predicted_payload_bytes, other.predicted_payload_bytes),
            encoded_bytes=self.encoded_bytes + other.encoded_bytes,
            wire_bytes=_sum(self.wire_bytes, other.wire_bytes),
            computed_wire_bytes=self.computed_wire_bytes + other.computed_wire_bytes,
            resent_bytes=self.resent_bytes + other.resent_bytes,
        )

    @classmethod
    def of(cls, cost: Cost) -> Traffic:
        """Return the traffic of a message that is sent for the first time."""
        return cls(
            elements=cost.elements,
            payload_bytes=cost.payload_bytes,
            encoded_bytes=cost.encoded_bytes,
            wire_bytes=cost.wire_bytes,
            computed_wire_bytes=cost.wire_bytes or 0,
        )

    @classmethod
    def of_repeat(cls, cost: Cost) -> Traffic:
        """Return the traffic of a message that is sent once more."""
        repeat = cls.of(cost)
        return cls(
            wire_bytes=repeat.wire_bytes,
            computed_wire_bytes=repeat.computed_wire_bytes,
            resent_bytes=cost.encoded_bytes,
        )

    def counted(self, wire_bytes: int) -> Traffic:
        """Return the same with what the kernel counted."""
        return msgspec.structs.replace(self, wire_bytes=wire_bytes)

    def computed(self) -> Traffic:
        """Return the same with what was computed from the messages alone."""
        return msgspec.structs.replace(self, wire_bytes=self.computed_wire_bytes)


def added(summands: Iterable[Traffic]) -> Traffic:
    """Return the sum of all."""
    total = Traffic()
    for traffic in summands:
        total = total.plus(traffic)
    return total


class Refusals(msgspec.Struct, frozen=True):
    """Updates that were not taken, from the run's start, by kind."""

    duplicate: int = 0
    stale: int = 0
    refused: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.duplicate + self.stale + self.refused

    def plus(self, code: str) -> Refusals:
        """Return the counts with one more, of the kind that this refusal code falls under."""
        kind = code if code in ("duplicate", "stale") else "refused"
        return msgspec.structs.replace(self, **{kind: getattr(self, kind) + 1})


class Score(msgspec.Struct, frozen=True):
    """One client's evaluation: test samples and how many each rule got right, for the model after `round`."""

    round: int
    num_test: int
    correct: dict[str, int]


class Report(NamedTuple):
    """What a client says of one exchange: how its model tests, and what its work took, if that is known.

    `held_s` is the time from the task's coming to the update's going.
    """

    evaluations: Sequence[Evaluation] = ()
    train_s: float | None = None
    evaluate_s: float | None = None
    checkpoint_s: float | None = None
    encode_s: float | None = None
    held_s: float | None = None
    client_peak_rss_bytes: int | None = None
    trainer_peak_rss_bytes: int | None = None
    gpu_peak_bytes: int | None = None
    energy_j: float | None = None

    @property
    def work_s(self) -> float | None:
        """What the client itself worked, in seconds, None if a part of that is not known."""
        return together_s(self.train_s, self.evaluate_s, self.checkpoint_s, self.encode_s)

    @classmethod
    def of(cls, evaluations: Sequence[Evaluation], timing: Timing | None) -> Report:
        """Return the report that an update and its timing make; the latter may be missing."""
        if timing is None:
            return cls(evaluations)
        return cls(
            evaluations,
            train_s=seconds(timing.train_us),
            evaluate_s=seconds(timing.evaluate_us),
            checkpoint_s=seconds(timing.checkpoint_us),
            encode_s=seconds(timing.encode_us),
            held_s=seconds(timing.held_us) or None,
            client_peak_rss_bytes=timing.client_peak_rss_bytes or None,
            trainer_peak_rss_bytes=timing.trainer_peak_rss_bytes or None,
            gpu_peak_bytes=timing.gpu_peak_bytes or None,
            energy_j=timing.energy_j if 0.0 <= timing.energy_j < MAX_ENERGY_J else None,
        )


class ClientLine(msgspec.Struct, frozen=True, tag_field="kind", tag="client"):
    """What one client's exchange came to; `base` is the round that made the global state it was sent.

    Attributes:
        turnaround_s: from the task's sending to the update's coming.
        queue_s: until the task was sent, and on the client until it was worked on, or its update let go.
        downlink_s: the task's travel; with `uplink_s` measured, each of the two estimated, see `split_travel`.
        uplink_s: the update's travel.
        wait_s: from the update's coming until those of others had come.
        client_peak_rss_bytes: peak memory of the daemon in this exchange, and so on.
        energy_j: what the device took from the task's coming until its update was made.
        num_left_out: how many evaluations its client told that cannot be, see `evaluations.Examiner`.
        computed_by: what has computed the update, library and device or provider; empty where none came.
    """

    round: int
    exchange: str
    exchange_index: int
    base: int
    client: str
    status: Answer
    up: Traffic
    down: Traffic
    train_s: float | None = None
    evaluate_s: float | None = None
    checkpoint_s: float | None = None
    encode_s: float | None = None
    turnaround_s: float | None = None
    queue_s: float | None = None
    downlink_s: float | None = None
    uplink_s: float | None = None
    wait_s: float | None = None
    client_peak_rss_bytes: int | None = None
    trainer_peak_rss_bytes: int | None = None
    gpu_peak_bytes: int | None = None
    energy_j: float | None = None
    evaluations: list[Score] = []
    num_left_out: int = 0
    computed_by: str = ""

    @property
    def work_s(self) -> float | None:
        """What the client itself took, in seconds, None if a part of that is not known."""
        return together_s(self.train_s, self.evaluate_s, self.checkpoint_s, self.encode_s)


class ExchangeLine(msgspec.Struct, frozen=True, tag_field="kind", tag="exchange"):
    """What the server half made of an exchange; `new_classes` are known since, `init` and `refusals` run totals.

    `simulated_at_s` is where the clock of a simulation with device profiles stood; `null_reasons` say, by dotted path,
    why a metric is null, and are in no line whose metrics are all known.
    """

    round: int
    exchange: str
    exchange_index: int
    exchange_s: float
    metrics: dict[str, float | None]
    new_classes: list[int]
    init: Traffic
    refusals: Refusals
    aggregate_s: float | None = None
    simulated_at_s: float | None = None
    null_reasons: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class RoundLine(msgspec.Struct, frozen=True, tag_field="kind", tag="round"):
    """How a round ended, and all that its exchanges cost; times are None where a restart or nothing lies between.

    `coordination_s` is None as well where a client that answered has not told all of its work, and in a simulation,
    where clients take turns.

    `simulated_at_s` is where the clock of a simulation with device profiles stood.
    """

    round: int
    status: Status
    reason: str
    global_hash: str
    round_s: float | None
    coordination_s: float | None
    ok: int
    failed: int
    late: int
    num_accepted: int
    up: Traffic
    down: Traffic
    new_classes: list[int]
    init: Traffic
    refusals: Refusals
    coordinator_peak_rss_bytes: int | None = None
    aggregator_peak_rss_bytes: int | None = None
    simulated_at_s: float | None = None


Line = ClientLine | ExchangeLine | RoundLine

_READER: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def write_line(line: Line) -> str:
    """Return a line as JSON, without its end."""
    return msgspec.json.encode(line).decode()


def read_line(text: str | bytes) -> Line:
    """Read what `write_line` returned.

    Raises:
        msgspec.MsgspecError: it is no such line.
    """
    return _READER.decode(text)


@dataclass(frozen=True)
class RoundView:
    """A closed round at a glance: bytes are encoded ones, accuracies the latest by then and their rounds."""

    round: int
    num_rounds: int
    status: Status
    reason: str
    ok: int
    failed: int
    late: int
    seconds: float | None
    up_bytes: int
    down_bytes: int
    accuracy: Mapping[str, float]
    accuracy_round: Mapping[str, int]

    @classmethod
    def of(
        cls, line: RoundLine, num_rounds: int, accuracy: Mapping[str, float], accuracy_round: Mapping[str, int]
    ) -> RoundView:
        """Return a round of so many by its line."""
        return cls(
            round=line.round,
            num_rounds=num_rounds,
            status=line.status,
            reason=line.reason,
            ok=line.ok,
            failed=line.failed,
            late=line.late,
            seconds=line.round_s,
            up_bytes=line.up.encoded_bytes,
            down_bytes=line.down.encoded_bytes,
            accuracy=accuracy,
            accuracy_round=accuracy_round,
        )


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right
