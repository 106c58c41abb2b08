"""Which figures go on which axes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from coordinator.report import plots
from coordinator.report.prototype_map import Plane, Spot
from coordinator.report.reading import Run


def test_each_rule_has_a_curve_over_rounds_and_over_bytes(run: Run) -> None:
    tracks = plots.tracks_of(run.series)
    by_round = plots.accuracy_by_round(tracks, 2, with_bands=True)
    by_bytes = plots.accuracy_by_bytes(tracks)
    assert [curve.label for curve in by_round.curves] == [curve.label for curve in by_bytes.curves]
    head = run.series.accuracy["head"]
    assert [(dot.x, dot.y) for dot in by_round.curves[0].dots] == [(point.round, point.weighted) for point in head]
    assert [dot.x for dot in by_bytes.curves[0].dots] == list(run.series.sent_bytes.values())
    assert by_round.curves[0].band[0] == (1.0, head[0].low, head[0].high)
    assert not plots.accuracy_by_round(tracks, 2, with_bands=False).curves[0].band


def test_bytes_far_apart_are_on_a_logarithmic_axis(run: Run) -> None:
    points = run.series.accuracy["head"]
    near, far = ({1: 2_000, 2: most} for most in (90_000, 900_000))
    assert not plots.accuracy_by_bytes([plots.Track("a", points, near)]).x.is_log
    assert plots.accuracy_by_bytes([plots.Track("a", points, far)]).x.is_log


def test_what_rounds_took_needs_a_duration(run: Run) -> None:
    times = plots.round_times(run.series, 2, takes_turns=False)
    assert times is not None
    assert [sum(heights) for _, heights, _ in times.columns] == pytest.approx([5.0, 6.0])
    assert times.parts[-1] == "coordination"


def test_what_rounds_took_in_a_simulation_needs_no_coordination(run: Run) -> None:
    first, second = (structs.replace(line, coordination_s=None) for line in run.series.rounds)
    series = replace(run.series, rounds=[first, structs.replace(second, round_s=None)])
    times = plots.round_times(series, 2, takes_turns=True)
    assert times is not None
    assert [round for round, _, _ in times.columns] == [1.0]
    assert times.parts[-1] == "rest"


def test_a_round_of_which_not_all_work_is_known_is_not_drawn(run: Run) -> None:
    first, second = run.series.rounds
    series = replace(run.series, rounds=[first, structs.replace(second, coordination_s=None)])
    times = plots.round_times(series, 2, takes_turns=False)
    assert times is not None
    assert [round for round, _, _ in times.columns] == [1.0]


@pytest.mark.parametrize(
    ("spots", "best"),
    [
        ([(10, 0.9), (20, 0.8), (30, 0.95)], [(10, 0.9), (30, 0.95)]),
        ([(10, 0.9), (10, 0.8)], [(10, 0.9)]),
        ([(10, 0.9), (20, 0.9)], [(10, 0.9)]),
    ],
)
def test_the_front_holds_what_no_other_beats(spots: list[tuple[float, float]], best: list[tuple[float, float]]) -> None:
    assert plots.undominated(spots) == best
    drawn = plots.front([f"run {number}" for number, _ in enumerate(spots)], spots)
    assert [(dot.x, dot.y) for dot in drawn.curves[0].dots] == best
    assert len(drawn.curves) == 1 + len(spots)


def test_local_prototypes_are_tied_to_the_global_one_of_their_class() -> None:
    spots = [Spot(1, 0, 0, ""), Spot(-1, 0, 1, ""), Spot(0.5, 0.5, 0, "ann"), Spot(0, 0, 7, "ann")]
    plot = plots.prototype_plot(Plane(spots, (0.6, 0.3)), ["a name that is long", "b"])
    tie, marks = plot.curves
    assert [(dot.x, dot.y) for dot in tie.dots] == [(0.5, 0.5), (1, 0)]
    assert tie.dots[0].told == "a name that is long of ann"
    assert marks.names == ["a name that…", "b"]
    assert plot.x.title == "direction 1: 60% of the variance"
