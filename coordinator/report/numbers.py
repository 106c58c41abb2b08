"""The numbers of a report for programs: all of them as JSON, or a row per run and round as CSV.

Of a round, `num_accepted` are the updates of all its exchanges, `ok` the clients whose update of the last one was
accepted, and `failed` the others that were asked. `num_clients.<rule>` in CSV, and `num_clients` below `accuracy` in
JSON, is how many clients' tests stand behind an accuracy. `metric.<name>` in CSV, and `metrics` in JSON, is what the
method's server half has returned from `aggregate`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from coordinator.metrics.series import KINDS, Flow
from coordinator.report.reading import Run

ROUND_FIGURES = (
    "status", "reason", "round_s", "coordination_s", "simulated_at_s", "num_accepted", "ok", "failed", "late",
)  # fmt: skip
"""What is taken as it stands from the line of a round."""

PEAK_COLUMNS = tuple(f"{name}_bytes" for name in KINDS)
"""The largest peak of memory in a round, by kind of process."""

TESTERS = "num_clients."

TRAFFIC = ("elements", "predicted_elements", "payload_bytes", "predicted_payload_bytes", "encoded_bytes", "wire_bytes")


def to_json(runs: Sequence[Run]) -> str:
    """Return all numbers of these runs; unknown ones are null."""
    content = {"runs": [_as_dict(run) for run in runs]}
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode() + "\n"


def to_csv(runs: Sequence[Run]) -> str:
    """Return a header and a row for each closed round; what is unknown, or no rule of the run, stays empty.

    The columns of how many clients have tested stand last.
    """
    rows = [row for run in runs for row in _rows(run)]
    text, names = io.StringIO(), dict.fromkeys(key for row in rows for key in row)
    writer = csv.DictWriter(text, sorted(names, key=lambda name: name.startswith(TESTERS)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _as_dict(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.folder.run_id,
        "outcome": run.outcome,
        "faults": run.faults,
        "config": run.config,
        "summary": run.summary,
        "rounds": list(rounds_of(run)),
        "clients": {client: _flow(figures) for client, figures in run.series.clients.items()},
        "exchanges": {name: _flow(flow) for name, flow in run.series.exchanges.items()},
        "samples": run.samples,
    }


def _flow(flow: Flow) -> dict[str, Any]:
    return {
        "num_asked": flow.num_asked,
        "num_accepted": flow.num_accepted,
        "num_refused": flow.num_refused,
        "uplink": msgspec.to_builtins(flow.up),
        "downlink": msgspec.to_builtins(flow.down),
    }


def rounds_of(run: Run) -> Iterator[dict[str, Any]]:
    """Yield the figures of each closed round; `accuracy` is by rule."""
    points: dict[int, dict[str, Any]] = {}
    for rule, found in run.series.accuracy.items():
        for point in found:
            points.setdefault(point.round, {})[rule] = point._asdict()
    sent_bytes, metrics = run.series.sent_bytes, run.series.metrics.items()
    unknown = {"coordination_s": None} if run.summary["mode"] == "simulate" else {}  # clients take turns there
    peaks = {f"{name}_bytes": run.series.peaks.get(kind, {}) for name, kind in KINDS.items()}
    for line in run.series.rounds:
        yield {
            "round": line.round,
            **{name: getattr(line, name) for name in ROUND_FIGURES},
            **unknown,
            **{name: found.get(line.round) for name, found in peaks.items()},
            "uplink": msgspec.to_builtins(line.up),
            "downlink": msgspec.to_builtins(line.down),
            "sent_bytes": sent_bytes[line.round],
            "accuracy": points.get(line.round, {}),
            "metrics": {name: found[line.round] for name, found in metrics if line.round in found},
            "null_reasons": run.series.null_reasons.get(line.round, {}),
        }


def _rows(run: Run) -> Iterator[dict[str, Any]]:
    told = {"run_id": run.folder.run_id, **{key: run.summary[key] for key in ("method", "mode", "seed")}}
    for figures in rounds_of(run):
        accuracies = {
            f"accuracy.{rule}.{name}": point[name]
            for rule, point in figures["accuracy"].items()
            for name in ("weighted", "mean", "low", "high")
        }
        plain = {name: figures[name] for name in ("round", *ROUND_FIGURES, *PEAK_COLUMNS)}
        traffic = {f"{way}.{name}": figures[way][name] for way in ("uplink", "downlink") for name in TRAFFIC}
        testers = {f"{TESTERS}{rule}": point["num_clients"] for rule, point in figures["accuracy"].items()}
        metrics = {f"metric.{name}": value for name, value in figures["metrics"].items()}
        yield {**told, **plain, **traffic, "sent_bytes": figures["sent_bytes"], **accuracies, **metrics, **testers}
