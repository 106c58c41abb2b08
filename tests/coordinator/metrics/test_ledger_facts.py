"""What the accounts know of a client, from which a method predicts its bytes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from coordinator.metrics.byte_prediction import RunFacts, facts_of
from models.methods.api import Facts
from models.spec import RunSpec
from tests.coordinator.accounting import READY, Book, report
from wire.messages import Ready


def test_classes_of_a_failed_round_stay_unknown() -> None:
    book = Book()
    book.ledger.round_opened(1, 0)
    book.exchange(1, 0, 0, {"ann": report(0)})
    book.open(1, 1, 2, {})
    assert book.ledger.facts("bob").num_classes_known == 2
    book.close(1, 5, "failed", "1 of 2 updates")
    assert book.ledger.facts("bob").num_classes_known == 0
    assert book.ledger.facts("bob").rounds_completed == 0


def test_what_the_server_half_has_told_is_a_fact_until_the_round_ends() -> None:
    book = Book()
    book.ledger.round_opened(1, 0)
    book.exchange(1, 0, 0, {"ann": report(0)})
    book.open(1, 1, 2, {})
    facts = book.ledger.facts("bob")
    assert (facts.round, facts.metrics) == (1, {"loss": 0.5})
    book.close(1, 5)
    assert book.ledger.facts("bob").metrics == {}


def test_facts_are_made_once_until_something_changes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    book, made = Book(), []

    def count(spec: RunSpec, ready: Ready, run: RunFacts) -> Facts:
        made.append(ready)
        return facts_of(spec, ready, run)

    monkeypatch.setattr("coordinator.metrics.byte_prediction.facts_of", count)
    book.ledger.round_opened(1, 0)
    book.open(1, 0, 0, {})
    assert book.ledger.facts("ann") is book.ledger.facts("ann")
    assert made == [READY["ann"]]
    book.ledger.announce("ann", replace(READY["ann"], num_train=10, class_counts=[10, 0, 0, 0]))
    assert book.ledger.facts("ann").num_train == 10
    book.ledger.exchange_closed({"loss": 0.5}, 2)
    book.open(1, 1, 2, {"ann": report(0)})
    assert book.ledger.facts("ann").metrics == {"loss": 0.5}
    book.close(1, 5)
    assert book.ledger.facts("ann").rounds_completed == 1
