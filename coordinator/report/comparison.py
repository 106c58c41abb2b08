"""The page of several runs: figures side by side, curves over each other, and the settings that differ."""

from __future__ import annotations

from collections.abc import Sequence

from coordinator.metrics.figures import footnotes, headline_caveats
from coordinator.report import plots
from coordinator.report.page import settings_of
from coordinator.report.reading import Run
from coordinator.report.rendering import ShownFigures, rendered

OF_A_RUN_ALONE = frozenset({"run.dir", "transport.bind"})
"""Settings that say nothing about a run's figures."""


def comparison_page(runs: Sequence[Run]) -> str:
    """Return the HTML of the comparison of several runs."""
    tracks = [track for run in runs if (track := _headline(run))]
    num_rounds = max((line.round for run in runs for line in run.series.rounds), default=1)
    spots = [(run.folder.run_id, spot) for run in runs if (spot := _spot(run))]
    marks, notes = footnotes([headline_caveats(run.summary) for run in runs])
    return rendered(
        "comparison.html",
        runs=[
            {"run": run, "figures": ShownFigures(run.summary), "mark": mark}
            for run, mark in zip(runs, marks, strict=True)
        ],
        notes=notes,
        by_round=plots.accuracy_by_round(tracks, num_rounds, with_bands=len(tracks) <= 3) if tracks else None,
        by_bytes=plots.accuracy_by_bytes(tracks) if tracks else None,
        front=plots.front([name for name, _ in spots], [spot for _, spot in spots]) if spots else None,
        differences=differing_settings(runs),
    )


def differing_settings(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Return the settings that are not the same in all runs, with the value of each run, empty where it has none."""
    settings = [settings_of(run) for run in runs]
    names = dict.fromkeys(name for found in settings for name in found)
    values = {name: [found.get(name, "") for found in settings] for name in names if name not in OF_A_RUN_ALONE}
    return {name: found for name, found in values.items() if len(set(found)) > 1}


def _headline(run: Run) -> plots.Track | None:
    """Return the curve of a run's headline rule, None if it has not been tested."""
    points = run.series.accuracy.get(run.summary["accuracy"]["rule"])
    return plots.Track(run.folder.run_id, points, run.series.sent_bytes) if points else None


def _spot(run: Run) -> tuple[float, float] | None:
    """Return the bytes sent by the round of a run's best accuracy, and that; None if one of them is not known."""
    accuracy, sent_bytes = run.summary["accuracy"], run.series.sent_bytes
    if accuracy["best"] is None or accuracy["best_round"] not in sent_bytes:
        return None
    return sent_bytes[accuracy["best_round"]], accuracy["best"]
