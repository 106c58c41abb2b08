"""A paper's table, as it came out here, made into a result."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from tests.benchmarks.papers import study
from tests.benchmarks.papers.order import order
from tests.benchmarks.papers.study import WAYS, Federation, Measure, Outcome, PaperTable, Runs, Scale
from tests.benchmarks.result import Claim, Findings, Result, Table

TOOK = "took"
"""How long all runs of a result took, among what is told of the machine."""


def measured(name: str, scale: Scale, title: str, table: PaperTable, runs: Runs) -> Result:
    """Run a table, but for what is there already, and return what is to be kept of it.

    Raises:
        Skipped: samples are missing.
    """
    parts = [(federation, study.run(federation, runs)) for federation in table.federations]
    made = [run for _, outcomes in parts for outcome in outcomes for run in outcome.runs]
    every = [_findings(federation, outcomes, table.measures, runs) for federation, outcomes in parts]
    findings = Findings(
        about=[*table.about],
        tables=[each for part in every for each in part.tables],
        claims=[each for part in every for each in part.claims],
    )
    command = f"make bench-papers TABLE={name} SCALE={scale}"
    date = max(run.date for run in made)
    return Result("papers", result_name(name, scale), title, command, date, _facts(made), findings)


def result_name(name: str, scale: Scale) -> str:
    """Return the name of the result of a table."""
    return name if scale == "cpu" else f"{name}-gpu"


def _facts(runs: Sequence[study.Run]) -> dict[str, str | int | float | None]:
    """Return the versions that the runs name, all of them where runs differ, and how long they took."""
    named: dict[str, set[str]] = {}
    for run in runs:
        for package, version in run.summary["versions"].items():
            named.setdefault(package, set()).add(version)
    told = {package: ", ".join(sorted(versions)) for package, versions in named.items()}
    took_s = sum({run.summary["run_id"]: run.wall_s for run in runs}.values())
    return {**told, TOOK: f"{round(took_s)} s"}


def _findings(federation: Federation, outcomes: Sequence[Outcome], measures: Sequence[Measure], runs: Runs) -> Findings:
    more = federation.more(outcomes, runs)
    own = [_table(federation, outcomes, measures)] if measures else []
    claims = list(_claims(federation, outcomes, measures))
    return Findings(tables=[*own, *more.tables], claims=[*claims, *more.claims])


def _table(federation: Federation, outcomes: Sequence[Outcome], measures: Sequence[Measure]) -> Table:
    paper = ["paper %"] if any(row.paper is not None for row in federation.rows) else []
    header = ["", *(f"{each.name} %" for each in measures), *paper, "rounds", "bytes up", "bytes down"]
    return Table(
        federation.title, header, [_cells(each, measures, bool(paper)) for each in outcomes], _note(federation)
    )


def _note(federation: Federation) -> str:
    num_seeds, papers = federation.num_seeds, [row.paper for row in federation.rows]
    seeds = f"Means of {num_seeds} seeds ± half their spread." if num_seeds > 1 else "Seed 0 alone."
    told = f"{seeds} Bytes: encoded, of an average round, all clients together."
    has_gaps = None in papers and any(papers)
    return f"{told} Where the paper's column is empty, it has no number for the row." if has_gaps else told


def _cells(outcome: Outcome, measures: Sequence[Measure], with_paper: bool) -> list[str]:
    paper = ["" if outcome.row.paper is None else f"{outcome.row.paper:.2f}"] if with_paper else []
    rounds = str(outcome.runs[0].summary["rounds_completed"])
    sent = [statistics.mean(run.per_round(way, "encoded_bytes") for run in outcome.runs) for way in WAYS]
    accuracies = [spread(outcome.percent(measure)) for measure in measures]
    return [outcome.row.name, *accuracies, *paper, rounds, *(f"{each:,.0f}" for each in sent)]


def spread(samples: Sequence[float]) -> str:
    """Return the mean, with half the spread where there are several."""
    mean = f"{statistics.mean(samples):.2f}"
    return f"{mean} ± {(max(samples) - min(samples)) / 2:.2f}" if len(samples) > 1 else mean


def _claims(federation: Federation, outcomes: Sequence[Outcome], measures: Sequence[Measure]) -> Iterator[Claim]:
    named = {outcome.row.name: outcome for outcome in outcomes}
    for names in federation.orders:
        for measure in measures:
            accuracies = [named[name].percent(measure) for name in names]
            yield order(names, f"{federation.title}, {measure.name}", accuracies, outcomes[0].runs[0].num_tests)
