"""The figures in rows, a contender in each column, as absolute figures and as ratios between peers and this runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from tests.benchmarks.figure import shown_number
from tests.benchmarks.peers import kills, plan
from tests.benchmarks.peers.grpc import Grpc
from tests.benchmarks.peers.notebook import NOT_MEASURED, Missing
from tests.benchmarks.peers.ours import Ours, OursInMemory, OursWithCurve
from tests.benchmarks.peers.seen import Seen
from tests.benchmarks.peers.superlink import SuperLink
from tests.benchmarks.result import Table

COLUMNS = (OursInMemory.name, Ours.name, OursWithCurve.name, Grpc.name, SuperLink.name)

PAIRS = (
    (Grpc.name, OursInMemory.name),
    (Grpc.name, Ours.name),
    (Grpc.name, OursWithCurve.name),
    (SuperLink.name, Ours.name),
    (SuperLink.name, OursWithCurve.name),
)
"""A peer, and what of ours it is compared with."""


@dataclass(frozen=True)
class Row:
    """A figure of all contenders: its value, how it is shown if not as that, or why it is missing."""

    label: str
    values: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)

    def absolute(self) -> list[str]:
        """Return the cells of the table of figures."""
        return [self.label, *(self.texts.get(name, _shown(self.values.get(name))) for name in COLUMNS)]

    def ratios(self) -> list[str]:
        """Return the cells of the table of ratios."""
        return [self.label, *(_shown(self.ratio(peer, own)) for peer, own in PAIRS)]

    def ratio(self, peer: str, own: str) -> float | None:
        """Return how many times ours a peer's figure is."""
        mine = self.values.get(own)
        return self.values[peer] / mine if mine and peer in self.values else None


def tables(seen: Seen) -> list[Table]:
    """Return the table of figures and that of ratios."""
    rows = list(_rows(seen))
    reasons = dict.fromkeys(f"{name}: {reason}" for row in rows for name, reason in row.reasons.items())
    empty = "; ".join([*reasons, "nothing else said: not measured"])
    note = f"Rounds: the median, and the 95th percentile in brackets. Where a cell is empty: {empty}."
    ratios = [cells for row in rows if any((cells := row.ratios())[1:])]
    return [
        Table("Figures", ["", *COLUMNS], [row.absolute() for row in rows], note),
        Table("Ratios: how many times ours a peer takes", ["", *(f"{peer} / {own}" for peer, own in PAIRS)], ratios),
    ]


def _rows(seen: Seen) -> Iterator[Row]:
    for num in seen.clients:
        for payload in seen.payloads:
            yield _of_runs(seen, f"round, {num} clients, {payload} (ms)", num, payload, "round_ms", "round_p95_ms")
    for payload in plan.ENDS:
        for num in seen.clients:
            yield _of_runs(
                seen, f"memory of the server side, {num} clients, {payload} (MiB)", num, payload, "server_mib"
            )
        few = seen.clients[0]
        yield _of_runs(seen, f"memory of a client, {few} clients, {payload} (MiB)", few, payload, "client_mib")
    for num in seen.clients:
        yield _of_runs(
            seen, f"start to the end of the first round, {num} clients (s)", num, plan.SMALLEST, "first_round_s"
        )
    few = seen.clients[0]
    yield _of_runs(seen, "processor time of a client by then (s)", few, plan.SMALLEST, "client_cpu_s")
    yield from _of_bytes(seen)
    yield _row("install size (MiB)", {name: seen.installed(name) for name in plan.PACKAGES}, attrgetter("mib"))
    yield from _of_kills(seen)


def _of_runs(seen: Seen, label: str, num: int, payload: str, what: str, in_brackets: str = "") -> Row:
    found = {name: seen.run(name, num, payload) for name in COLUMNS}
    row = _row(label, found, attrgetter(what))
    if not in_brackets:
        return row
    brackets = {name: shown_number(getattr(found[name], in_brackets)) for name in row.values}
    texts = {name: f"{shown_number(value)} ({brackets[name]})" for name, value in row.values.items()}
    return Row(label, row.values, texts, row.reasons)


def _of_bytes(seen: Seen) -> Iterator[Row]:
    names = [kind.name for kind in plan.SENDING]
    for payload in seen.payloads:
        found = {name: seen.traffic(name, payload) for name in names}
        for way in ("up", "down"):
            yield _row(f"bytes {way}, a client and round, {payload}", found, attrgetter(way))
    idle = {name: seen.idle(name) for name in names}
    yield _row("bytes a second of an idle client, both ways", idle, attrgetter("bytes_per_s"))


def _of_kills(seen: Seen) -> Iterator[Row]:
    names = [kind.name for kind in plan.SENDING]
    never = f"never in {kills.PATIENCE_S:g} s"
    servers = {name: seen.server_killed(name) for name in names}
    yield _row("kill -9 of the server, until a round is closed (s)", servers, attrgetter("closed_after_s"), never)
    clients = {name: seen.client_killed(name) for name in names}
    label = f"kill -9 of a client, longest wait for a round of {kills.DEADLINE_S:g} s at most (s)"
    yield _row(label, clients, attrgetter("stall_s"), never)


def _row(label: str, found: Mapping[str, Any], read: Callable[[Any], float | None], never: str = "") -> Row:
    there = {name: each for name, each in found.items() if not isinstance(each, Missing)}
    values = {name: value for name, each in there.items() if (value := read(each)) is not None}
    texts = {name: never for name in there if name not in values}
    reasons = {name: each.reason for name, each in found.items() if isinstance(each, Missing) and each != NOT_MEASURED}
    return Row(label, values, texts, reasons)


def _shown(value: float | None) -> str:
    return "" if value is None else shown_number(value)
