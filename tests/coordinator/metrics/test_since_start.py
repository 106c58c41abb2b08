"""Run constants count once for each client, whoever is killed; refusals never count less than before."""

from __future__ import annotations

from coordinator.metrics.since_start import SinceStart
from coordinator.metrics.tally import Cost, ExchangeLine, Refusals, Traffic

COST = Cost(10, 40, 70, 74)


def line(init: Traffic, refusals: Refusals) -> ExchangeLine:
    known = {"round": 1, "exchange": "prototypes", "exchange_index": 0, "exchange_s": 1.0, "metrics": {}}
    return ExchangeLine(**known, new_classes=[], init=init, refusals=refusals)  # type: ignore[arg-type]


def test_a_constant_that_goes_to_the_same_client_again_costs_only_bytes_on_the_wire() -> None:
    counts = SinceStart()
    for client, digest in (("ann", "a"), ("bob", "a"), ("ann", "b"), ("ann", "a")):
        counts.constant_sent(client, digest, COST)
    init = counts.init
    assert (init.elements, init.payload_bytes, init.encoded_bytes) == (30, 120, 210)
    assert (init.wire_bytes, init.resent_bytes) == (4 * 74, 70)


def test_a_process_that_goes_on_counts_what_an_earlier_one_has_sent_once() -> None:
    earlier, counts = SinceStart(), SinceStart()
    stored = earlier.constant_sent("ann", "a", COST)
    counts.before({"ann": stored}, Refusals())
    counts.replay(line(Traffic.of(COST), Refusals()))
    assert counts.init == Traffic.of(COST)
    counts.constant_sent("ann", "a", COST)
    counts.constant_sent("bob", "a", COST)
    assert (counts.init.encoded_bytes, counts.init.resent_bytes) == (140, 70)


def test_lines_alone_tell_what_was_sent_and_refused() -> None:
    counts = SinceStart()
    for num_sent, num_stale in ((2, 1), (1, 0)):
        counts.replay(line(Traffic(encoded_bytes=70 * num_sent), Refusals(stale=num_stale)))
    assert counts.init.encoded_bytes == 140
    assert counts.refusals == Refusals(stale=1)
