"""Makes BENCHMARKS.md, and its plots, of the results that are kept.

    python -m tests.benchmarks.page

Plots need matplotlib (the extra `bench`); without it those that are there stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.benchmarks.figure import Figure, shown_number, shown_ratio
from tests.benchmarks.papers.not_run import not_run
from tests.benchmarks.papers.order import RULE
from tests.benchmarks.result import RESULTS, Claim, Findings, Group, Plot, Result, Table, read_all

PAGE = Path(__file__).parents[2] / "BENCHMARKS.md"

INTRODUCTION = """\
<!-- Made by `python -m tests.benchmarks.page` of tests/benchmarks/results/; change those, not this page. -->
# Benchmarks

What this runtime costs beside its peers and beside the least that the same machine can do, and the papers' tables with
the bytes that they really send. All of it was measured by the commands that stand with it. The machines are shared, so
ratios within one run say more than the figures themselves; where load_1min is well above the number of cores, times
are those of a busy machine, and only ratios within one row of a table mean something. A spread is from the smallest to
the largest; that of rounds, and of their coordination, is from the median to the 95th percentile.
"""

GROUPS: dict[Group, str] = {
    "peers": "Beside the peers",
    "limits": "Beside the limits",
    "papers": "The papers' tables",
    "runtime": "The runtime's own figures",
}

NOTES: dict[Group, str] = {"papers": RULE}
"""What stands below a title."""

NOT_RUN = "Not run"

SIZE_INCHES = (6.4, 4.0)


def main() -> int:
    """Write the page and its plots; return 0."""
    results = read_all()
    PAGE.write_text(page(results))
    if find_spec("matplotlib") is not None:
        for result in results:
            for number, plot in enumerate(result.findings.plots):
                _draw(plot, RESULTS / _plot_name(result, number))
    print(PAGE)
    return 0


def page(results: Sequence[Result]) -> str:
    """Return the page of these results."""
    groups = {group: [result for result in results if result.group == group] for group in GROUPS}
    shown = {group: own for group, own in groups.items() if own}
    parts = [INTRODUCTION, *_contents([*(GROUPS[group] for group in shown), NOT_RUN])]
    for group, own in shown.items():
        parts += [f"## {GROUPS[group]}\n"]
        parts += [f"{NOTES[group]}\n"] if group in NOTES else []
        parts += _group(own)
    parts += [f"## {NOT_RUN}\n", _markdown(Table("", ["what", "why"], not_run({result.name for result in results})))]
    return "\n".join(parts)


def _contents(titles: Sequence[str]) -> list[str]:
    return [*(f"- [{title}](#{_anchor(title)})" for title in titles), ""]


def _group(results: Sequence[Result]) -> Iterator[str]:
    """Yield the sections of a group, and before them what is the same in all of them."""
    facts = [result.machine.items() for result in results]
    common = [fact for fact in facts[0] if all(fact in other for other in facts)]
    yield f"All of it with {_told(common)}.\n"
    yield from _contents([result.title for result in results])
    for result, own in zip(results, facts, strict=True):
        yield _section(result, [fact for fact in own if fact not in common])


def _section(result: Result, facts: Sequence[tuple[str, object]]) -> str:
    findings = result.findings
    measured = ", ".join(filter(None, [f"`{result.command}`", result.date, _told(facts)]))
    parts = [f"### {result.title}\n", f"{measured}\n", *(f"{paragraph}\n" for paragraph in findings.about)]
    parts += map(_markdown, findings.tables)
    parts += [_claims(findings.claims)] if findings.claims else []
    parts += [_figures(findings.figures)] if findings.figures else []
    parts += _images(result, findings)
    return "\n".join(parts)


def _told(facts: Sequence[tuple[str, object]]) -> str:
    return ", ".join(f"{name} {fact}" for name, fact in facts if fact is not None)


def _anchor(title: str) -> str:
    """Return the name that a heading can be linked by."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _claims(claims: Sequence[Claim]) -> str:
    return "\n".join(f"- {each.text}: **{each.verdict}** ({each.seen})" for each in claims) + "\n"


def _figures(figures: Sequence[Figure]) -> str:
    header = ["figure", "median", "spread", "samples", "target", "of the limit", "verdict"]
    return _markdown(Table("", header, [_cells(figure) for figure in figures]))


def _cells(figure: Figure) -> list[str]:
    bound = "at least" if figure.at_least else "under"
    target = "" if figure.target is None else f"{bound} {shown_number(figure.target)}"
    ratio = shown_ratio(figure)
    spread = f"{shown_number(figure.smallest)} to {shown_number(figure.largest)}" if figure.num_samples > 1 else ""
    name = f"{figure.name} ({figure.unit})" if figure.unit else figure.name
    return [name, shown_number(figure.median), spread, str(figure.num_samples), target, ratio, figure.verdict]


def _markdown(table: Table) -> str:
    rows = [table.header, ["---", *("---:" for _ in table.header[1:])], *table.rows]
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    title = [f"**{table.title}**\n"] if table.title else []
    return "\n".join([*title, *lines, *([f"\n{table.note}"] if table.note else []), ""])


def _images(result: Result, findings: Findings) -> Iterator[str]:
    for number, plot in enumerate(findings.plots):
        path = (RESULTS / _plot_name(result, number)).relative_to(PAGE.parent)
        yield f"![{plot.title}]({path.as_posix()})\n"


def _plot_name(result: Result, number: int) -> str:
    return f"{result.name}-{number}.svg"


def _draw(plot: Plot, path: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    # The same figures make the same file, and text stays text.
    pyplot.rcParams.update({"svg.hashsalt": path.name, "svg.fonttype": "none"})
    figure, axes = pyplot.subplots(figsize=SIZE_INCHES, layout="constrained")
    for curve in plot.curves:
        axes.plot(*zip(*curve.points, strict=True), marker="o", label=curve.label)
    axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y)
    if plot.is_log:
        axes.set(xscale="log", yscale="log")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    raise SystemExit(main())
