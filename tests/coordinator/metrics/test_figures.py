"""A summary's figures by path, and why one of them is unknown."""

from __future__ import annotations

import pytest

from coordinator.metrics.figures import MISSING, Figures

FIGURES = Figures(
    {
        "wire": None,
        "round_s": {"median": 0.5, "p95": None},
        "accuracy_by_rule": {"a.b": {"best": 0.75}},
        "null_reasons": {"wire": "nothing travels", "round_s.p95": "too few"},
    }
)


def test_a_figure_is_found_by_its_keys_or_with_dots() -> None:
    assert FIGURES.value("round_s.median") == FIGURES.value(("round_s", "median")) == 0.5
    assert FIGURES.value(("accuracy_by_rule", "a.b", "best")) == 0.75
    assert FIGURES.reason("round_s.median") == ""


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("round_s.p95", "too few"),
        ("wire", "nothing travels"),
        ("wire.uplink.rounds_bytes", "nothing travels"),
        (("wire", "uplink"), "nothing travels"),
        ("round_s.most", MISSING),
        ("round_s.median.whole", MISSING),
        ("energy.total_j", MISSING),
    ],
)
def test_an_unknown_figure_has_the_reason_of_the_nearest_null(path: str | tuple[str, ...], reason: str) -> None:
    assert FIGURES.value(path) is None
    assert FIGURES.reason(path) == reason
