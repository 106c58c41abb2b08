"""The accounts of a round that fails below quorum, with its exchange open."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coordinator.metrics.ledger import Ledger
from tests.coordinator.accounting import Book, ledger, report, scored


def failed_run() -> Book:
    """Round 2 fails: bob, who was asked as ann was, has not answered; round 3 completes."""
    book = Book()
    told = {"ann": report(1)._replace(energy_j=5.0), "bob": report(1)._replace(energy_j=3.0)}
    tested = {"ann": report(1, scored(1, 10, head=5)), "bob": report(1, scored(1, 30, head=15))}
    book.round(1, 0, told, {client: tested[client]._replace(energy_j=1.0) for client in tested})
    book.ledger.round_opened(2, 10)
    book.open(2, 0, 10, {"ann": report(0.5, scored(1, 10, anchor=10))._replace(energy_j=2.0)})
    book.close(2, 14, "failed", "1 of 2 updates")
    book.round(3, 20, told, told)
    return book


def summary_of(accounts: Ledger) -> dict[str, Any]:
    return accounts.summary("loopback", {}, {})


def test_each_client_of_its_exchange_has_a_line() -> None:
    lines = [line for line in map(json.loads, failed_run().exchange_lines) if line["round"] == 2]
    assert [(line["kind"], line["client"], line["status"]) for line in lines] == [
        ("client", "ann", "accepted"),
        ("client", "bob", "missing"),
    ]
    assert [(line["train_s"], line["wait_s"], line["down"]["encoded_bytes"]) for line in lines] == [
        (0.5, 3, 60),
        (None, None, 60),
    ]


def test_they_are_counted_once_with_the_round() -> None:
    book = failed_run()
    line, summary = json.loads(book.round_lines[1]), summary_of(book.ledger)
    assert (line["ok"], line["failed"], line["num_accepted"], line["coordination_s"]) == (1, 1, 1, 4 - 1)
    assert (summary["updates"]["accepted"], summary["uplink"]["encoded_bytes"]) == (4 + 1 + 4, 9 * 50)
    assert summary["clients"]["ann"]["energy_j"] == (5 + 1) + 2 + (5 + 5)
    assert summary["accuracy_by_rule"]["anchor"]["last"] == 1.0


@pytest.mark.parametrize("rounds_first", [False, True])
def test_replay_ends_in_the_same_summary(rounds_first: bool) -> None:
    book, accounts = failed_run(), ledger()
    lines = [book.exchange_lines, book.round_lines]
    for some in reversed(lines) if rounds_first else lines:
        accounts.replay(some)
    assert summary_of(accounts) == summary_of(book.ledger)


def test_a_round_that_completes_has_no_line_but_its_own() -> None:
    book = Book()
    book.ledger.round_opened(1, 0)
    book.exchange(1, 0, 0, {})
    assert len(book.ledger.round_closed(1, "completed", "", "hash", 5)) == 1


def test_the_energy_of_who_was_asked_and_did_not_answer_is_missing() -> None:
    summary = summary_of(failed_run().ledger)
    assert summary["energy"] == {"total_j": None, "measured_j": (5 + 3) + (1 + 1) + 2 + 2 * (5 + 3)}
    assert summary["null_reasons"]["energy.total_j"] == "bob: it has not answered every task"
