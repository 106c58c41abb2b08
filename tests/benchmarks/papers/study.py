"""What a paper's table is here: federations, each trained by several methods and seeds in the simulator.

A run that is over is kept in a folder, and found there again by its settings; one that was interrupted goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from coordinator.config import load
from coordinator.resume import last_run
from tests.benchmarks import job
from tests.benchmarks.papers.samples import FOLDER, Samples
from tests.benchmarks.result import Findings

Scale = Literal["cpu", "gpu"]
"""A stated smaller one, or the paper's own, which needs CUDA."""

CUDA = ("training.device=cuda",)

WAYS = ("uplink", "downlink")

TIMEOUT_S = 24 * 3600.0
"""No run takes longer."""


@dataclass(frozen=True)
class Row:
    """One line of a table: its name, its settings, and the accuracy that the paper has for it, in percent."""

    name: str
    settings: Sequence[str]
    paper: float | None = None


@dataclass(frozen=True)
class Measure:
    """What is taken of a run's summary, as a share, and how that is called."""

    name: str
    of: Callable[[dict[str, Any]], float]


BEST = Measure("best round", lambda summary: float(summary["accuracy"]["best"]))
LAST = Measure("last round", lambda summary: float(summary["accuracy"]["last"]))


class Run(msgspec.Struct, frozen=True):
    """A run that is over; `settings` are each a `table.key=value`.

    If it was ever interrupted, `wall_s` is what its rounds took.
    """

    settings: list[str]
    wall_s: float
    summary: dict[str, Any]

    @property
    def date(self) -> str:
        """Its day, as YYYY-MM-DD."""
        day = self.summary["run_id"].rsplit("-", 3)[1]
        return f"{day[:4]}-{day[4:6]}-{day[6:]}"

    @property
    def num_tests(self) -> int:
        """How many samples it was tested on; those that all clients are tested on count once."""
        own = [client["num_test"] for client in self.summary["clients"].values()]
        return max(own) if "evaluation.test=global" in self.settings else sum(own)

    def per_round(self, way: str, unit: str) -> float:
        """Return `elements` or `encoded_bytes` of an average round, up or down, all clients together."""
        return float(self.summary[way][unit]) / int(self.summary["rounds_completed"])


@dataclass(frozen=True)
class Outcome:
    """A row and its runs, one for each seed."""

    row: Row
    runs: Sequence[Run]

    def percent(self, measure: Measure) -> list[float]:
        """Return the accuracy of each seed."""
        return [100 * measure.of(run.summary) for run in self.runs]


class Runs:
    """A folder of runs; what has been run with the same settings is not run again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        kept = [msgspec.json.decode(path.read_bytes(), type=Run) for path in folder.glob("*.json")]
        self._kept = {identity(run.settings): run for run in kept}

    def get(self, settings: Sequence[str]) -> Run:
        """Return the run with these settings, which may take hours."""
        key = identity(settings)
        if key not in self._kept:
            self._kept[key] = self._simulate(settings)
        return self._kept[key]

    def metrics(self, run: Run) -> list[dict[str, Any]]:
        """Return what the method told of each exchange; nothing if the run's own folder is gone."""
        path = self.folder / run.summary["run_id"] / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line["metrics"] for line in lines if line["kind"] == "exchange" and line["metrics"]]

    def _simulate(self, settings: Sequence[str]) -> Run:
        begun = last_run(load(None, [*settings, f"run.dir={self.folder}"]), "simulate")
        more = [] if begun is None else ["--resume", str(begun)]
        done = job.run(settings, self.folder, command="simulate", timeout_s=TIMEOUT_S, more=more)
        wall_s = done.wall_s if begun is None else sum(each["round_s"] or 0.0 for each in done.rounds)
        run = Run(list(settings), wall_s, done.summary)
        (self.folder / f"{done.folder.name}.json").write_bytes(msgspec.json.encode(run))
        return run


def identity(settings: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return what tells a run from others: the last value of each key, and of a path only its last part.

    Where it is stored changes nothing that comes out.
    """
    pairs = (setting.split("=", 1) for setting in settings)
    return frozenset({key: value.rpartition("/")[2] for key, value in pairs if key != "run.store"}.items())


def no_more(outcomes: Sequence[Outcome], runs: Runs) -> Findings:
    """Find nothing more in a federation's runs."""
    return Findings()


@dataclass(frozen=True)
class Federation:
    """Clients and their samples, and the rows of what they are trained by.

    Attributes:
        title: what it is, above its rows.
        samples: its data set.
        settings: those of all rows.
        rows: the rows, which may settle otherwise.
        orders: names of rows as the paper has them, the highest first.
        num_seeds: how many seeds there are, from 0 on.
        more: what else is found in the runs.
    """

    title: str
    samples: Samples
    settings: Sequence[str]
    rows: Sequence[Row]
    orders: Sequence[Sequence[str]] = ()
    num_seeds: int = 1
    more: Callable[[Sequence[Outcome], Runs], Findings] = no_more

    def settings_of(self, row: Row, seed: int, folder: Path) -> list[str]:
        """Return all settings of a run, whose samples are written to a folder."""
        every = (*self.samples.settings, *self.settings, *row.settings, f"run.seed={seed}")
        return [setting.replace(FOLDER, str(folder)) for setting in every]

    def tried(self, num_rounds: int) -> Federation:
        """Return the same with one seed and so many rounds, and nothing said of it but accuracies and bytes."""
        few = [f"run.num_rounds={num_rounds}", "evaluation.every=1"]
        rows = [replace(row, settings=[*row.settings, *few]) for row in self.rows]
        return replace(self, rows=rows, orders=(), num_seeds=1, more=no_more)


@dataclass(frozen=True)
class PaperTable:
    """A paper's table or figure at a scale.

    Attributes:
        about: setting and scale, and what differs from the paper, a paragraph each.
        federations: its parts.
        measures: the accuracies that are told and compared.
    """

    about: Sequence[str]
    federations: Sequence[Federation]
    measures: Sequence[Measure] = (BEST, LAST)

    def tried(self, num_rounds: int) -> PaperTable:
        """Return the same with so few rounds that nothing can be said of the paper."""
        return replace(self, about=[], federations=[each.tried(num_rounds) for each in self.federations])


def run(federation: Federation, runs: Runs) -> list[Outcome]:
    """Write the samples, run every row with every seed that is not there yet, and tell of each as it begins and ends.

    Raises:
        Skipped: samples are missing.
    """
    federation.samples.write(runs.folder)
    outcomes = []
    for row in federation.rows:
        made = []
        for seed in range(federation.num_seeds):
            settings = federation.settings_of(row, seed, runs.folder)
            num_rounds = load(None, settings).run.num_rounds
            print(f"  {federation.title}: {row.name}, seed {seed}, {num_rounds} rounds: ", end="", flush=True)
            made.append(runs.get(settings))
            print(f"{made[-1].wall_s:.0f} s", flush=True)
        outcomes.append(Outcome(row, made))
    return outcomes
