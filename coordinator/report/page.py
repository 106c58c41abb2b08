"""The page of one run: what its template is filled with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.clients.device import read_device
from coordinator.metrics.accuracy import clients_in_words
from coordinator.metrics.durations import STAGES
from coordinator.metrics.footprint import PEAKS_OF_CLIENTS
from coordinator.metrics.origin import origin_in_words
from coordinator.metrics.series import BAND, Series, median_or_none
from coordinator.metrics.summary import PEAKS
from coordinator.metrics.task_scores import BEST_OF_TASKS, accuracies_at_end
from coordinator.report import plots
from coordinator.report.prototype_map import plane_of
from coordinator.report.reading import Run
from coordinator.report.rendering import ShownFigures, rendered
from coordinator.report.timeline import AGGREGATE, LINK, MISSING, UNKNOWN, WAIT, Timeline, timeline_of
from coordinator.status.reading import Status
from coordinator.status.text import exchange_in_words, way_on
from coordinator.store.run_folder import Samples

SHOWN_SPANS = (*STAGES[:-1], LINK, UNKNOWN, WAIT, AGGREGATE, MISSING)
"""What a timeline's legend names."""

NO_FIGURES = {**dict.fromkeys(PEAKS_OF_CLIENTS), "energy_j": None}
"""What a client's device took, where its summary does not say."""

MAX_LANES = 100
"""A timeline shows so many clients; those of more are its first."""


def run_page(run: Run) -> str:
    """Return the HTML of the report of one run."""
    return rendered("run.html", **_content(run))


def live_body(run: Run, status: Status, log: Sequence[str]) -> str:
    """Return the same as a part of a page, with what `coordinator status` says and the log's last lines."""
    told = {"status": status, "exchange": exchange_in_words(status), "way_on": way_on(status), "log": log}
    return rendered("live_body.html", **_content(run), **told)


def _content(run: Run) -> dict[str, Any]:
    """Return what the templates are filled with."""
    summary, series = run.summary, run.series
    takes_turns = summary["mode"] == "simulate"
    num_rounds = max((line.round for line in series.rounds), default=1)
    tracks = plots.tracks_of(series)
    plane = plane_of(run.global_prototypes, run.local_prototypes) if run.global_prototypes else None
    return {
        "run": run,
        "summary": summary,
        "figures": ShownFigures(summary),
        "origin": origin_in_words(summary),
        "testers": clients_in_words(summary),
        "tasks": accuracies_at_end(summary),
        "best_of_tasks": BEST_OF_TASKS,
        "takes_turns": takes_turns,
        "band": BAND,
        "by_round": plots.accuracy_by_round(tracks, num_rounds, with_bands=True) if tracks else None,
        "metrics": _metrics(series),
        "by_bytes": plots.accuracy_by_bytes(tracks) if tracks else None,
        "by_simulated_time": plots.accuracy_by_simulated_time(series),
        "traffic": plots.bytes_by_round(series, num_rounds) if series.rounds else None,
        "times": plots.round_times(series, num_rounds, takes_turns),
        "timelines": _timelines(run, takes_turns),
        "spans": SHOWN_SPANS,
        "links": (summary.get("wire") or {}).get("clients", {}),
        "devices": _devices(summary.get("clients", {})),
        "memory": plots.peaks_by_round(series, num_rounds),
        "clients": _clients(run),
        "peaks": PEAKS,
        "samples": _samples(run.samples),
        "plane": plots.prototype_plot(plane, run.classes) if plane else None,
        "has_local": bool(run.local_prototypes),
        "settings": settings_of(run),
        "privacy": summary.get("privacy"),
        "failed": [line for line in series.rounds if line.status == "failed"],
    }


def settings_of(run: Run) -> dict[str, str]:
    """Return every setting as `table.key`, its value as text, and as `init_from` what the run was started from."""
    tables, origin = run.config.items(), origin_in_words(run.summary)
    settings = {f"{table}.{key}": _as_text(value) for table, keys in tables for key, value in keys.items()}
    return {**settings, "init_from": origin} if origin else settings


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _timelines(run: Run, takes_turns: bool) -> list[tuple[str, Timeline]]:
    found = []
    for round, what in run.series.shown.items():
        timeline = timeline_of(round, run.series.timeline.get(round, ()), takes_turns)
        if timeline.duration_s > 0:
            found.append((what, timeline._replace(lanes=timeline.lanes[: MAX_LANES + 1])))
    return found


def _metrics(series: Series) -> list[dict[str, Any]]:
    """Return of each metric of the server half the last value that is known, its round, the least and the largest."""
    rows = []
    for name, told in series.metrics.items():
        known = {round: value for round, value in told.items() if value is not None}
        if known:
            least, most, last = min(known.values()), max(known.values()), max(known)
            rows.append({"name": name, "last": known[last], "round": last, "least": least, "most": most})
    return rows


def _clients(run: Run) -> list[dict[str, Any]]:
    """Return a row of figures for each client."""
    announced, accuracy = run.summary.get("clients", {}), run.summary["accuracy"]["per_client"]
    spent = run.summary.get("privacy", {}).get("clients", {})
    return [
        {
            "id": client,
            "announced": announced.get(client, {}),
            "accuracy": accuracy.get(client),
            "spent": spent.get(client, {}),
            "figures": figures,
            "train_s": median_or_none(figures.train_s),
            "turnaround_s": median_or_none(figures.turnaround_s),
        }
        for client, figures in run.series.clients.items()
    ]


def _devices(clients: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what each client's device is and took, none if no client has said what it is."""
    return [
        {**NO_FIGURES, **told, "id": client, "about": read_device(told["device"])}
        for client, told in clients.items()
        if told.get("device")
    ]


def _samples(samples: Mapping[str, Samples]) -> list[dict[str, Any]]:
    """Return how many train samples of each class each client has, and as shares of the largest such number."""
    largest = max((count for counts in samples.values() for count in counts["train"]), default=0) or 1
    return [
        {
            "client": client,
            "cells": [(count, round(count / largest, 3)) for count in counts["train"]],
            "num_train": sum(counts["train"]),
            "num_test": sum(counts["test"]),
        }
        for client, counts in samples.items()
    ]
