"""What the time of an exchange consists of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.metrics.durations import Durations, MeanDurations, Moments, durations_of, split_travel
from coordinator.metrics.tally import ExchangeLine, Refusals, Report, Traffic

MOMENTS = Moments(opened_at=10.0, sent_at=10.5, accepted_at=15.5, closing_at=16.0)


def test_what_neither_side_accounts_for_is_travel() -> None:
    report = Report(train_s=1.0, evaluate_s=0.5, checkpoint_s=0.25, encode_s=0.25, held_s=3.0)
    took = durations_of(MOMENTS, report, down_bytes=300, up_bytes=100, rtt_s=0.4)
    assert took == pytest.approx(Durations(turnaround_s=5.0, queue_s=1.5, downlink_s=1.4, uplink_s=0.6, wait_s=0.5))


def test_a_client_that_does_not_say_how_long_it_held_the_task_leaves_travel_unknown() -> None:
    took = durations_of(MOMENTS, Report(train_s=1.0), 300, 100, 0.4)
    assert took == Durations(5.0, None, None, None, 0.5)


def test_work_that_is_not_known_leaves_the_queue_unknown() -> None:
    report = Report(train_s=None, evaluate_s=0.5, checkpoint_s=0.25, encode_s=0.25, held_s=3.0)
    took = durations_of(MOMENTS, report, down_bytes=300, up_bytes=100, rtt_s=0.4)
    assert took == pytest.approx(Durations(turnaround_s=5.0, queue_s=None, downlink_s=1.4, uplink_s=0.6, wait_s=0.5))


def test_what_was_before_a_restart_is_unknown() -> None:
    assert durations_of(Moments(10.0, None, None, 16.0), Report(held_s=1.0), 1, 1, None) == Durations(*5 * [None])


@given(*[st.floats(0.0, 100.0)] * 2, *[st.integers(0, 10**9)] * 2)
def test_both_ways_together_are_what_was_measured(travel_s: float, rtt_s: float, down: int, up: int) -> None:
    down_s, up_s = split_travel(travel_s, down, up, rtt_s)
    assert down_s + up_s == pytest.approx(travel_s)
    assert min(down_s, up_s) >= 0.0


def test_clocks_that_disagree_make_no_negative_travel() -> None:
    assert split_travel(-0.001, 10, 10, 0.1) == (0.0, 0.0)


def test_means_are_over_what_is_known() -> None:
    means = MeanDurations()
    for aggregate_s in (1.0, 3.0, None):
        means.book(ExchangeLine(1, "x", 0, 5.0, {}, [], Traffic(), Refusals(), aggregate_s))
    assert means.means()["aggregate"] == 2.0
    assert means.means()["train"] is None
