"""What a run was started from stands in its summary, and in words wherever its figures are shown."""

from __future__ import annotations

from msgspec.structs import replace

from coordinator.metrics.ledger import Ledger
from coordinator.metrics.origin import Origin, origin_in_words
from models.methods import find
from tests.coordinator.accounting import READY, SPEC, TWO


def test_a_run_that_was_started_from_another_says_so() -> None:
    ledger = Ledger(SPEC, TWO)
    ledger.start_from({0, 2}, Origin("two-0", 7, "a1", [0, 2]))
    summary = ledger.summary("serve", {}, {})
    assert summary["init_from"] == {"run_id": "two-0", "round": 7, "global_hash": "a1", "classes": [0, 2]}
    assert origin_in_words(summary) == "round 7 of two-0"


def test_one_that_was_not_says_nothing() -> None:
    summary = Ledger(SPEC, TWO).summary("serve", {}, {})
    assert summary["init_from"] is None
    assert "init_from" not in summary["null_reasons"]
    assert origin_in_words(summary) == origin_in_words({}) == ""


def test_the_first_sizes_are_those_that_no_client_and_no_class_changes() -> None:
    ledger = Ledger(SPEC, TWO)
    ledger.start_from({0, 2}, None)
    assert ledger.first_dims(None) == {"K": 4, "D": 2}  # not A, the classes that are known


def test_a_clients_own_sizes_are_known_when_it_has_announced_them() -> None:
    fedavg = find("fedavg")
    ledger = Ledger(replace(SPEC, method="fedavg"), fedavg)
    ledger.start_from({0, 2}, None)
    ledger.announce("ann", READY["ann"])
    assert ledger.first_dims(None) == {"K": 4, "D": 2}
    assert ledger.first_dims("ann") == {"K": 4, "D": 2, "P": READY["ann"].num_parameters, "F": READY["ann"].num_buffers}
