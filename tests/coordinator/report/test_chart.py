"""The geometry of plots."""

from __future__ import annotations

import pytest

from coordinator.report.chart import BYTES, Bars, Curve, Dot, Plot, linear_axis, log_axis, round_axis, scaled_axis


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([0.62, 0.97], ["0.6", "0.7", "0.8", "0.9", "1.0"]),
        ([0.91, 0.93], ["0.910", "0.915", "0.920", "0.925", "0.930"]),
        ([0.5, 0.5], ["0.5", "0.6"]),
        ([0.0, 0.0], ["0.0", "0.2"]),
        ([0.0, 5000.0], ["0", "1,000", "2,000", "3,000", "4,000", "5,000"]),
    ],
)
def test_a_linear_axis_holds_all_values_between_round_ticks(values: list[float], labels: list[str]) -> None:
    axis = linear_axis("accuracy", values)
    assert [label for _, label in axis.ticks] == labels
    assert axis.low <= min(values) <= max(values) <= axis.high


@pytest.mark.parametrize(
    ("num_rounds", "labels"),
    [(1, ["1"]), (10, ["1", "2", "4", "6", "8", "10"]), (100, ["1", "20", "40", "60", "80", "100"])],
)
def test_rounds_are_whole(num_rounds: int, labels: list[str]) -> None:
    assert [label for _, label in round_axis(num_rounds).ticks] == labels


def test_a_scaled_axis_names_its_unit() -> None:
    axis = scaled_axis("sent", [0.0, 3.5 * 2**20], BYTES)
    assert (axis.title, axis.high) == ("sent (MiB)", 4 * 2**20)
    assert axis.ticks[1] == (2.0**20, "1")
    assert scaled_axis("sent", [0.0], BYTES).title == "sent (B)"


def test_a_log_axis_has_equal_steps_for_equal_factors() -> None:
    axis = log_axis("sent", [20 * 2**10, 30 * 2**20])
    assert [label for _, label in axis.ticks] == ["10 KiB", "100 KiB", "1 MiB", "10 MiB", "100 MiB"]
    assert axis.share(axis.low) == 0
    assert axis.share(axis.high) == 1
    assert axis.share(100 * 2**10) - axis.share(10 * 2**10) == pytest.approx(
        axis.share(100 * 2**20) - axis.share(10 * 2**20)
    )


def test_a_curve_goes_from_corner_to_corner() -> None:
    curve = Curve("a", 0, [Dot(0, 0, "low"), Dot(10, 1, "high")], [(0, 0, 1), (10, 0.5, 1)])
    plot = Plot(linear_axis("x", [0, 10]), linear_axis("y", [0, 1]), [curve])
    assert plot.line(curve) == f"M{plot.left:g} {plot.bottom:g}L{plot.right:g} {plot.top:g}"
    assert plot.area(curve).count("L") == 3
    assert plot.legend == [("a", 0)]


def test_a_long_curve_has_fewer_dots_than_points() -> None:
    curve = Curve("a", 0, [Dot(x, 0, "") for x in range(1000)])
    plot = Plot(linear_axis("x", [0, 1000]), linear_axis("y", [0, 1]), [curve])
    assert 100 < len(plot.shown_dots(curve)) <= 200
    assert plot.line(curve).count("L") == 999


def test_parts_of_a_column_stand_on_each_other() -> None:
    bars = Bars(round_axis(1), linear_axis("s", [0, 4]), parts=["a", "b"], columns=[(1.0, [1.0, 3.0], "told")])
    assert f"V{bars.py(1):g}h" in bars.stack(0)
    assert f"{bars.py(1):g}V{bars.py(4):g}h" in bars.stack(1)
    assert Bars(bars.x, bars.y, parts=["a"], columns=[(1.0, [0.0], "")]).stack(0) == ""
