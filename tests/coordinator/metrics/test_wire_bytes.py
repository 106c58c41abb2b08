"""Bytes on the wire in a summary."""

from __future__ import annotations

import pytest

from coordinator.metrics.links import LinkCounts
from coordinator.metrics.tally import Traffic
from coordinator.metrics.wire_bytes import wire_source, wire_summary, wire_total

ROUNDS = (Traffic(wire_bytes=900, computed_wire_bytes=800), Traffic(wire_bytes=700, computed_wire_bytes=600))
EVALUATION = (Traffic(wire_bytes=50, computed_wire_bytes=40), Traffic(wire_bytes=60, computed_wire_bytes=50))
INIT = Traffic(wire_bytes=30)
LINKS = {"ann": LinkCounts(600, 500, num_connections=1), "bob": LinkCounts(500, 400, num_connections=2)}


@pytest.mark.parametrize(
    ("links", "clients", "source"),
    [
        (LINKS, ["ann", "bob"], "kernel"),
        (LINKS, ["ann"], "kernel"),
        (LINKS, ["ann", "bob", "cat"], "computed"),
        ({}, ["ann"], "computed"),
        ({}, [], "computed"),
        ({"ann": LinkCounts(600, 500, computed_bytes=20, num_connections=1)}, ["ann"], "both"),
    ],
)
def test_the_kernel_counts_for_all_clients_or_not_at_all(
    links: dict[str, LinkCounts], clients: list[str], source: str
) -> None:
    assert wire_source(links, clients) == source


def test_what_is_of_no_exchange_is_the_rest_of_the_kernels_count() -> None:
    found = wire_summary("kernel", LINKS, ROUNDS, EVALUATION, INIT)
    assert found["uplink"] == {"rounds_bytes": 900, "evaluation_bytes": 50, "other_bytes": 150}
    assert found["downlink"] == {"rounds_bytes": 700, "evaluation_bytes": 60, "other_bytes": 140}
    assert (wire_total(found, "uplink"), wire_total(found, "downlink")) == (1100, 900)
    assert found["clients"]["bob"]["num_connections"] == 2
    assert "word" not in found["clients"]["bob"]


def test_computed_bytes_are_those_of_messages_with_run_constants() -> None:
    found = wire_summary("computed", {}, ROUNDS, EVALUATION, INIT)
    assert (wire_total(found, "uplink"), wire_total(found, "downlink")) == (840, 680)


def test_a_part_that_is_unknown_leaves_the_whole_unknown() -> None:
    found = wire_summary("kernel", LINKS, (Traffic(wire_bytes=None), ROUNDS[1]), EVALUATION, INIT)
    assert found["uplink"]["other_bytes"] is wire_total(found, "uplink") is None
    assert wire_total(found, "downlink") == 900
