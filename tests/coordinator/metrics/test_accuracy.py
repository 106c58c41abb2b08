"""Which round and how many clients an accuracy is of."""

from __future__ import annotations

from coordinator.metrics.accuracy import clients_in_words
from tests.coordinator.accounting import Book, report, scored


def absent_bob() -> Book:
    """Return a run in whose second round bob tests nothing, and ann the global state of the first."""
    book = Book()
    book.round(1, 0, {}, {"ann": report(0, scored(1, 10, head=5)), "bob": report(0, scored(1, 30, head=15))})
    book.round(2, 10, {"ann": report(0, scored(1, 10, anchor=8))}, {"ann": report(0, scored(2, 10, head=9))})
    return book


def test_the_best_and_the_last_say_how_many_clients_tested_them() -> None:
    book = absent_bob()
    book.round(3, 20, {}, {"ann": report(0, scored(3, 10, head=5)), "bob": report(0, scored(3, 30, head=15))})
    summary = book.ledger.summary("loopback", {}, {})
    counts = {rule: accuracy["num_clients"] for rule, accuracy in summary["accuracy_by_rule"].items()}
    assert counts["head"] == {"best": 1, "last": 2}
    assert counts["anchor"] == {"best": 1, "last": 1}
    assert clients_in_words(summary)[:2] == [
        "head: best and last are of different clients: 1 and 2 of 2",
        "anchor: tested by 1 of 2 clients",
    ]


def test_of_a_rule_that_nobody_tested_no_number_is_known() -> None:
    summary = Book().ledger.summary("loopback", {}, {})
    assert summary["accuracy_by_rule"]["head"]["num_clients"] == {"best": None, "last": None}
    assert "accuracy_by_rule.head.num_clients.best" in summary["null_reasons"]
    assert clients_in_words(summary) == []


def test_where_all_clients_tested_all_there_is_nothing_to_say() -> None:
    book = Book()
    book.round(1, 0, {}, {"ann": report(0, scored(1, 10, head=5)), "bob": report(0, scored(1, 30, head=15))})
    assert clients_in_words(book.ledger.summary("loopback", {}, {})) == []
    assert clients_in_words({"num_clients": 2, "accuracy_by_rule": {"head": {"best": 0.5, "last": 0.5}}}) == []  # older


def test_the_latest_accuracy_of_a_round_names_the_round_that_it_is_of() -> None:
    book = absent_bob()
    assert book.ledger.headline(1).accuracy_round == {"head": 1, "anchor": 1}
    assert book.ledger.headline(2).accuracy_round == {"head": 2, "anchor": 1}
