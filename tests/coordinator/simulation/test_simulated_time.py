"""Simulated time in a run's figures."""

from __future__ import annotations

import pytest

from coordinator.metrics.series import Point, Series
from coordinator.metrics.tally import Refusals, RoundLine, Traffic
from coordinator.report.plots import accuracy_by_simulated_time
from coordinator.simulation.simulated_time import simulated_times


def round_line(round: int, simulated_at_s: float | None) -> RoundLine:
    none, refusals = Traffic(), Refusals()
    return RoundLine(
        round, "completed", "", "", 0.1, 0.1, 2, 0, 0, 2, none, none, [], none, refusals, simulated_at_s=simulated_at_s
    )


ROUNDS = [round_line(1, 2.0), round_line(2, 5.0), round_line(3, 6.0)]


def test_rounds_follow_each_other_on_the_clock() -> None:
    made = simulated_times(ROUNDS, best_round=2)
    assert made == {"total_s": 6.0, "round_s": {"median": 2.0, "p95": pytest.approx(2.9)}, "to_best_accuracy_s": 5.0}


def test_without_profiles_there_is_no_such_time() -> None:
    assert simulated_times([round_line(1, None)], best_round=1) == {}
    assert accuracy_by_simulated_time(Series([round_line(1, None)])) is None


def test_an_untested_run_has_no_time_to_its_best() -> None:
    assert simulated_times(ROUNDS, best_round=None)["to_best_accuracy_s"] is None


def test_accuracies_are_drawn_where_their_round_was_closed() -> None:
    series = Series(ROUNDS, accuracy={"head": [Point(1, 0.5, 0.5, 0.4, 0.6, 2), Point(3, 0.7, 0.7, 0.6, 0.8, 2)]})
    plot = accuracy_by_simulated_time(series)
    assert plot is not None
    assert [(dot.x, dot.y) for dot in plot.curves[0].dots] == [(2.0, 0.5), (6.0, 0.7)]
