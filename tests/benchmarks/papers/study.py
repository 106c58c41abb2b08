"""A study: the same federation trained by several methods and seeds in the simulator, as a table beside a paper's.

A run that is over leaves its summary in the study's folder, so a study that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks import job
from tests.benchmarks.figure import Figure

TIMEOUT_S = 4 * 3600.0
"""No run of a study takes longer."""


@dataclass(frozen=True)
class Row:
    """One line of a study's table: its name, its settings, and what a paper says of its accuracy, in percent."""

    name: str
    settings: Sequence[str]
    paper: str = ""


@dataclass(frozen=True)
class Result:
    """A row's summaries, one per seed, and how long each run took."""

    row: Row
    summaries: list[dict[str, Any]] = field(default_factory=list)
    walls_s: list[float] = field(default_factory=list)

    def best(self, rule: str = "") -> list[float]:
        """Return the best accuracy of each seed, by this rule or the headline one, in percent."""
        found = [summary["accuracy_by_rule"][rule] if rule else summary["accuracy"] for summary in self.summaries]
        return [100 * accuracy["best"] for accuracy in found]

    def last(self) -> list[float]:
        """Return the last accuracy of each seed by the headline rule, in percent."""
        return [100 * summary["accuracy"]["last"] for summary in self.summaries]

    def per_round(self, way: str, unit: str) -> float:
        """Return `elements`, `payload_bytes` or `encoded_bytes` of an average round, all clients together."""
        sent = [int(summary[way][unit]) / int(summary["rounds_completed"]) for summary in self.summaries]
        return statistics.mean(sent)


def run(rows: Sequence[Row], seeds: Sequence[int], common: Sequence[str], out: Path) -> list[Result]:
    """Simulate every row with every seed, say what came out as it comes, and print the table."""
    results = []
    for row in rows:
        result = Result(row)
        for seed in seeds:
            summary, wall_s = _simulate(row, seed, common, out)
            result.summaries.append(summary)
            result.walls_s.append(wall_s)
            print(f"  {row.name}, seed {seed}: best {result.best()[-1]:.2f} %, {wall_s:.0f} s", flush=True)
        results.append(result)
    print(table(results), flush=True)
    return results


def figures(results: Sequence[Result]) -> list[Figure]:
    """Return the accuracies and the time of each row, for the file."""
    made = []
    for result in results:
        name = result.row.name
        made += [Figure.of(f"{name}: best accuracy", "%", result.best())]
        made += [Figure.of(f"{name}: last accuracy", "%", result.last())]
        made += [Figure.of(f"{name}: wall time", "s", result.walls_s)]
    return made


def table(results: Sequence[Result]) -> str:
    """Return accuracies as mean and spread over the seeds, and what an average round sends, as aligned lines."""
    header = ("", "rule", "best %", "last %", "paper %", "elements up", "down", "encoded bytes up", "down", "s")
    rows = [header, *(_cells(result) for result in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])]).rstrip() for cells in rows]
    note = "accuracies: mean +- half the spread over the seeds; elements and bytes: of an average round, all clients"
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], note])


def _cells(result: Result) -> tuple[str, ...]:
    sent = [
        f"{result.per_round(way, unit):,.0f}"
        for unit in ("elements", "encoded_bytes")
        for way in ("uplink", "downlink")
    ]
    rule = str(result.summaries[0]["accuracy"]["rule"])
    wall = f"{statistics.median(result.walls_s):.0f}"
    return (result.row.name, rule, _spread(result.best()), _spread(result.last()), result.row.paper, *sent, wall)


def _spread(samples: Sequence[float]) -> str:
    mean = f"{statistics.mean(samples):.2f}"
    return f"{mean} +- {(max(samples) - min(samples)) / 2:.2f}" if len(samples) > 1 else mean


def _simulate(row: Row, seed: int, common: Sequence[str], out: Path) -> tuple[dict[str, Any], float]:
    settings = [*common, *row.settings, f"run.seed={seed}"]
    kept = out / f"{re.sub('[^a-z0-9]+', '-', row.name.lower())}-seed{seed}.json"
    if kept.exists():
        content = json.loads(kept.read_text())
        if content["settings"] == settings:
            return content["summary"], content["wall_s"]
    done = job.run(settings, out, command="simulate", timeout_s=TIMEOUT_S)
    kept.write_text(json.dumps({"settings": settings, "wall_s": done.wall_s, "summary": done.summary}))
    return done.summary, done.wall_s
