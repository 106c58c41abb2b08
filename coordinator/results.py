"""What came out of runs, a line each."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.metrics.figures import footnotes, headline_caveats
from coordinator.store.run_folder import RunFolder
from coordinator.table import Row, aligned
from coordinator.units import show_accuracy, show_bytes
from coordinator.whereabouts import whereabouts
from models.spec import ConfigError


class Result(NamedTuple):
    """What has come out of one run, over or not; figures are None where they are not known.

    `rule` is what the accuracies are by, and the bytes are the encoded ones of all rounds. `is_batched`: clients
    trained together. `fault` says what is wrong with a run folder that cannot be read, where nothing is known.
    `caveats` are what is to be said where its accuracies stand beside those of other runs.
    """

    run_id: str
    method: str
    seed: int | None
    outcome: str
    rounds: int | None = None
    accuracy: float | None = None
    best_accuracy: float | None = None
    up_bytes: int | None = None
    down_bytes: int | None = None
    fault: str = ""
    rule: str = ""
    is_batched: bool = False
    caveats: Sequence[str] = ()


class Results(list[Result]):
    """The results of several runs; as text, a table."""

    def __str__(self) -> str:
        """Return a line for each run, below a header, then what its marks mean, and what is wrong with any."""
        if not self:
            return "no runs"
        header = Row(
            "run", ["method", "seed", "outcome", "rounds", "rule", "last", "best", "encoded up", "encoded down"]
        )
        faults = [result.fault for result in self if result.fault]
        marks, notes = footnotes([result.caveats for result in self])
        rows = [_row(result, mark) for result, mark in zip(self, marks, strict=True)]
        return "\n".join([*aligned(header, rows, sys.maxsize), *notes, *faults])


def read_result(path: Path) -> Result:
    """Return what came out of the run in this folder, over or not."""
    try:
        folder = RunFolder.open(path)
        tables, found = folder.read_tables(), whereabouts(folder)
        summary = folder.read_summary() or _so_far(path)
    except ConfigError as error:
        return Result(path.name, "", None, "unreadable", fault=str(error))
    accuracy, up, down = (summary.get(part, {}) for part in ("accuracy", "uplink", "downlink"))
    return Result(
        folder.run_id,
        tables["method"]["name"],
        tables["run"]["seed"],
        found.outcome or found.state,
        summary.get("rounds_completed"),
        accuracy.get("last"),
        accuracy.get("best"),
        up.get("encoded_bytes"),
        down.get("encoded_bytes"),
        rule=accuracy.get("rule", ""),
        is_batched=bool(summary.get("batched")),
        caveats=headline_caveats(summary),
    )


def _so_far(path: Path) -> Mapping[str, Any]:
    """Return what the summary of a run that has none would say now, nothing if it has not begun."""
    from coordinator.report.reading import read_run  # the accounts, which most who ask for results do not need

    try:
        return read_run(path).summary
    except ConfigError:
        return {}


def _row(result: Result, mark: str) -> Row:
    accuracies = ["n/a" if each is None else show_accuracy(each) for each in (result.accuracy, result.best_accuracy)]
    sizes = ["n/a" if each is None else show_bytes(each) for each in (result.up_bytes, result.down_bytes)]
    rounds = "n/a" if result.rounds is None else str(result.rounds)
    seed = "n/a" if result.seed is None else str(result.seed)
    told = [result.method or "n/a", seed, result.outcome, rounds, result.rule or "n/a"]
    return Row(
        result.run_id,
        [*told, *accuracies, *sizes],
        " ".join(filter(None, ("batched" if result.is_batched else "", mark))),
    )
