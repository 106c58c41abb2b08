"""Bytes on the wire in a summary: all that travelled in a run, by the kernel's count where it says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from coordinator.metrics.links import LinkCounts
from coordinator.metrics.tally import Traffic

SOURCES = {
    "kernel": "counted by the kernel: TCP payload of all the clients' connections",
    "both": "counted by the kernel; computed for what went just before a restart",
    "computed": "computed: ZMTP framing of tasks, updates and run constants, without handshakes and TCP headers",
}
"""Where figures of bytes on the wire come from."""

NO_FIGURES = frozenset({"word", "lost_round", "num_states_not_found"})
"""What is kept with a link and is none of its own figures."""

WAYS = ("uplink", "downlink")


def wire_source(links: Mapping[str, LinkCounts], clients: Sequence[str]) -> str:
    """Return which of `SOURCES` a run's bytes on the wire have: the kernel's count is whole or not used."""
    if not clients or not all(client in links for client in clients):
        return "computed"
    return "both" if any(link.computed_bytes for link in links.values()) else "kernel"


def wire_summary(
    source: str,
    links: Mapping[str, LinkCounts],
    rounds: Sequence[Traffic],
    evaluation: Sequence[Traffic],
    init: Traffic,
) -> dict[str, Any]:
    """Return the section of a summary; what is sent up stands first in `rounds` and `evaluation`.

    What is neither of the rounds nor of the evaluation after the last is handshakes, heartbeats, run constants, and
    acknowledgements between two exchanges.
    """
    if source == "computed":
        rounds = [traffic.computed() for traffic in rounds]
        evaluation = [traffic.computed() for traffic in evaluation]
        other: tuple[int | None, ...] = (0, init.wire_bytes)
    else:
        totals = (sum(link.up_bytes for link in links.values()), sum(link.down_bytes for link in links.values()))
        both = zip(totals, rounds, evaluation, strict=True)
        other = tuple(_less(total, within.wire_bytes, tested.wire_bytes) for total, within, tested in both)
    shares = zip(WAYS, rounds, evaluation, other, strict=True)
    return {
        "source": source,
        **{
            way: {"rounds_bytes": within.wire_bytes, "evaluation_bytes": tested.wire_bytes, "other_bytes": rest}
            for way, within, tested, rest in shares
        },
        "clients": {client: told_of(link) for client, link in sorted(links.items())},
    }


def wire_total(section: Mapping[str, Any], way: str) -> int | None:
    """Return all that went one way, None if a part of it is not known."""
    parts: list[int | None] = list(section[way].values())
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _less(total: int, *parts: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return total - sum(known) if len(known) == len(parts) else None


def told_of(link: LinkCounts) -> dict[str, Any]:
    """Return the figures of a link."""
    return {name: figure for name, figure in msgspec.structs.asdict(link).items() if name not in NO_FIGURES}
