"""The accounts of a run that was broken off and goes on, by numbers made by hand."""

from __future__ import annotations

import json

import pytest

from coordinator.metrics.ledger import Cost
from tests.coordinator.accounting import TASK, UPDATE, Book, ledger, report, scored, summary_of, whole_run


@pytest.mark.parametrize("rounds_first", [False, True])
def test_replay_ends_in_the_same_summary(rounds_first: bool) -> None:
    book = whole_run()
    accounts = ledger()
    lines = [book.exchange_lines, book.round_lines]
    for some in reversed(lines) if rounds_first else lines:
        accounts.replay(some)
    assert summary_of(accounts) == summary_of(book.ledger)
    assert accounts.headline(3) == book.ledger.headline(3)


def test_the_peak_on_a_gpu_survives_a_restart() -> None:
    book, accounts = Book(), ledger()
    book.round(1, 0, {"ann": report(0.5)._replace(gpu_peak_bytes=70)}, {"ann": report(1)._replace(gpu_peak_bytes=60)})
    accounts.replay([*book.exchange_lines, *book.round_lines])
    summary = summary_of(accounts)
    assert summary["gpu_peak_bytes"] == summary["clients"]["ann"]["gpu_peak_bytes"] == 70
    assert "gpu_peak_bytes" not in summary["null_reasons"]


def test_a_resumed_exchange_ends_in_the_same_summary() -> None:
    first = {"ann": report(0.5), "bob": report(1)}
    last = {"ann": report(1, scored(1, 10, head=5)), "bob": report(0.5, scored(1, 30, head=21))}
    straight = Book()
    straight.round(1, 0, first, last)
    broken, resumed = Book(), Book()
    broken.ledger.since_start.constant_sent("ann", "a", Cost(10, 40, 70, 74))
    straight.ledger.since_start.constant_sent("ann", "a", Cost(10, 40, 70, 74))
    broken.ledger.round_opened(1, 0)
    broken.exchange(1, 0, 0, first)
    resumed.ledger.replay(broken.exchange_lines)
    resumed.ledger.round_opened(1, 50, resumed=True)
    resumed.exchange(1, 1, 50, last)
    resumed.close(1, 60)
    assert resumed.ledger.headline(1).seconds is None
    timed = ("round_s", "coordination_s", "null_reasons")
    expected, got = summary_of(straight.ledger), summary_of(resumed.ledger)
    got["init"] = expected["init"]  # sent after the last line before the end, and not sent again
    assert {key: got[key] for key in got if key not in timed} == {
        key: expected[key] for key in expected if key not in timed
    }
    assert got["null_reasons"]["round_s.median"] == "no round was completed without a restart"


def test_what_an_exchange_had_before_a_restart_is_counted_without_times() -> None:
    accounts = ledger()
    accounts.round_opened(1, 50, resumed=True)
    accounts.exchange_opened(1, 0, ["ann", "bob"], 50)
    accounts.task_sent("ann", TASK, None)
    accounts.update_accepted("ann", UPDATE, report(0.5), None)
    accounts.task_sent("bob", TASK, 51)
    accounts.update_accepted("bob", UPDATE, report(1), 53)
    ann, bob, _ = map(json.loads, accounts.exchange_closed({}, 54))
    assert (ann["status"], ann["turnaround_s"], ann["train_s"]) == ("accepted", None, 0.5)
    assert (bob["status"], bob["turnaround_s"]) == ("accepted", 2)
    assert ann["up"] == bob["up"]
    assert ann["down"] == bob["down"]
