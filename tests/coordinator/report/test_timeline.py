"""Where the time of a round goes."""

from __future__ import annotations

import pytest

from coordinator.report.reading import Run
from coordinator.report.timeline import AGGREGATE, LINK, MISSING, WAIT, takes_of, timeline_of


def spans(run: Run, name: str, takes_turns: bool = False) -> list[tuple[str, float, float]]:
    timeline = timeline_of(2, run.series.timeline[2], takes_turns)
    (lane,) = [lane for lane in timeline.lanes if lane.name == name]
    return [(span.what, span.start_s, span.end_s) for span in lane.spans]


def test_a_lane_has_work_link_and_waiting(run: Run) -> None:
    assert spans(run, "ann")[:5] == [
        ("train", 0.0, 0.25),
        ("checkpoint", 0.25, 0.5),
        ("encode", 0.5, 0.75),
        (LINK, 0.75, 1.0),
        (WAIT, 1.0, 2.0),
    ]


def test_a_missing_update_spans_its_exchange(run: Run) -> None:
    assert spans(run, "bob")[-1] == (MISSING, 2.0, 4.0)


def test_the_coordinator_aggregates_when_the_last_update_is_there(run: Run) -> None:
    timeline = timeline_of(2, run.series.timeline[2], False)
    assert timeline.lanes[0].name == "coordinator"
    assert timeline.duration_s == 4.0
    assert spans(run, "coordinator") == [(AGGREGATE, 1.0, 2.0), (AGGREGATE, 3.0, 4.0)]


def test_in_a_simulation_nobody_waits(run: Run) -> None:
    assert [what for what, _, _ in spans(run, "ann", takes_turns=True)] == 2 * ["train", "checkpoint", "encode", LINK]
    assert [lane.name for lane in timeline_of(2, run.series.timeline[2], True).lanes] == ["ann", "bob"]


def test_parts_and_the_rest_are_the_rounds_duration(run: Run) -> None:
    for line in run.series.rounds:
        takes = takes_of(line, run.series, takes_turns=False)
        assert sum(takes) == pytest.approx(line.round_s)
        assert takes[-1] == pytest.approx(line.coordination_s)
        assert takes[0] == 0.375  # ann's two exchanges, who did more in all than bob


def test_in_a_simulation_the_parts_are_all_clients(run: Run) -> None:
    assert takes_of(run.series.rounds[0], run.series, takes_turns=True)[0] == 0.875
