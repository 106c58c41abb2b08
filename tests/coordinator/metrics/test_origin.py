"""What a run was started from stands in its summary, and in words wherever its figures are shown."""

from __future__ import annotations

from coordinator.metrics.ledger import Ledger
from coordinator.metrics.origin import Origin, origin_in_words
from tests.coordinator.accounting import SPEC, TWO


def test_a_run_that_was_started_from_another_says_so() -> None:
    ledger = Ledger(SPEC, TWO)
    ledger.start_from({0, 2}, Origin("two-0", 7, "a1"))
    summary = ledger.summary("serve", {}, {})
    assert summary["init_from"] == {"run_id": "two-0", "round": 7, "global_hash": "a1"}
    assert origin_in_words(summary) == "round 7 of two-0"


def test_one_that_was_not_says_nothing() -> None:
    summary = Ledger(SPEC, TWO).summary("serve", {}, {})
    assert summary["init_from"] is None
    assert "init_from" not in summary["null_reasons"]
    assert origin_in_words(summary) == origin_in_words({}) == ""
