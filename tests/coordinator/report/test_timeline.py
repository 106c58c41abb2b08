"""Where the time of a round goes."""

from __future__ import annotations

import pytest

from coordinator.metrics.tally import ClientLine, ExchangeLine, Refusals, Traffic
from coordinator.report.reading import Run
from coordinator.report.timeline import AGGREGATE, LINK, MISSING, UNKNOWN, WAIT, takes_of, timeline_of


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
        (WAIT, 1.0, 1.5),
    ]


def test_a_missing_update_spans_its_exchange(run: Run) -> None:
    assert spans(run, "bob")[-1] == (MISSING, 2.0, 3.5)


def test_the_coordinator_aggregates_when_no_more_updates_are_waited_for(run: Run) -> None:
    timeline = timeline_of(2, run.series.timeline[2], False)
    assert timeline.lanes[0].name == "coordinator"
    assert timeline.duration_s == 4.0
    assert spans(run, "coordinator") == [(AGGREGATE, 1.5, 2.0), (AGGREGATE, 3.5, 4.0)]


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


def test_a_client_that_says_how_long_it_held_the_task_has_its_stages_in_their_order() -> None:
    """Seconds are eighths, which floats hold exactly."""
    line = ClientLine(
        1, "x", 0, 0, "ann", "accepted", Traffic(), Traffic(),
        train_s=2.0, evaluate_s=0.5, checkpoint_s=0.25, encode_s=0.125, turnaround_s=4.0,
        queue_s=0.75, downlink_s=0.5, uplink_s=0.25, wait_s=0.5,
    )  # fmt: skip
    exchange = ExchangeLine(1, "x", 0, 6.0, {}, [], Traffic(), Refusals(), aggregate_s=1.125)
    (own, ann) = timeline_of(1, [line, exchange], False).lanes
    stages = ["queue", "downlink", "train", "evaluate", "checkpoint", "encode", "uplink", WAIT]
    assert [span.what for span in ann.spans] == stages
    assert [span.start_s for span in ann.spans] == [0.0, 0.75, 1.25, 3.25, 3.75, 4.0, 4.125, 4.375]
    assert ann.spans[-1].end_s == own.spans[0].start_s == 4.875


def test_work_that_was_not_told_in_whole_is_no_travel() -> None:
    line = ClientLine(
        1, "x", 0, 0, "ann", "accepted", Traffic(), Traffic(), None, 0.5, 0.25, 0.125, turnaround_s=4.0, wait_s=0.5
    )
    (_, ann) = timeline_of(1, [line, ExchangeLine(1, "x", 0, 4.5, {}, [], Traffic(), Refusals())], False).lanes
    spans = [(span.what, span.start_s) for span in ann.spans]
    assert spans == [("evaluate", 0.0), ("checkpoint", 0.5), ("encode", 0.75), (UNKNOWN, 0.875), (WAIT, 4.0)]


def test_a_refused_update_spans_its_exchange_too() -> None:
    nothing = Traffic()
    refused = ClientLine(1, "x", 0, 0, "bob", "refused", nothing, nothing)
    closed = ExchangeLine(1, "x", 0, 3.0, {}, [], nothing, Refusals())
    (lane,) = [lane for lane in timeline_of(1, [refused, closed], False).lanes if lane.name == "bob"]
    assert lane.spans == [(MISSING, 0.0, 3.0)]
