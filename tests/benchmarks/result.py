"""What a benchmark found, as it is kept in `results/` and shown in a terminal and in `BENCHMARKS.md`."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from tests.benchmarks import machine
from tests.benchmarks.figure import Figure, table

RESULTS = Path(__file__).with_name("results")

Group = Literal["peers", "limits", "papers", "runtime"]


class Table(msgspec.Struct, frozen=True):
    """Rows of cells under a header, all of them as they are shown; an empty cell was not measured."""

    title: str
    header: list[str]
    rows: list[list[str]]
    note: str = ""


class Claim(msgspec.Struct, frozen=True):
    """What is said to hold, whether it does here (None: it cannot be told), and the figures that say so."""

    text: str
    holds: bool | None
    seen: str

    @property
    def verdict(self) -> str:
        """The same in words."""
        return "cannot be told" if self.holds is None else "holds" if self.holds else "does not hold"


class Curve(msgspec.Struct, frozen=True):
    """Points of a plot, x and y, the first with the smallest x."""

    label: str
    points: list[tuple[float, float]]


class Plot(msgspec.Struct, frozen=True):
    """Curves over the same axes; `is_log` is for both axes."""

    title: str
    x: str
    y: str
    curves: list[Curve]
    is_log: bool = True


class Findings(msgspec.Struct, frozen=True):
    """What was measured. `about` has the setting and what does not compare, a paragraph each."""

    about: list[str] = []
    tables: list[Table] = []
    claims: list[Claim] = []
    figures: list[Figure] = []
    plots: list[Plot] = []


class Result(msgspec.Struct, frozen=True):
    """Findings, and where they come from.

    Attributes:
        group: the part of the page that it belongs to.
        name: of its file.
        title: of its section.
        command: what measures it again.
        date: when that was, as YYYY-MM-DD; of the last of its parts, where some are older.
        machine: processor, cores, load and versions.
    """

    group: Group
    name: str
    title: str
    command: str
    date: str
    machine: dict[str, str | int | float | None]
    findings: Findings

    def write(self, folder: Path = RESULTS) -> None:
        """Keep it in a folder, in place of an older one of the same name."""
        folder.mkdir(parents=True, exist_ok=True)
        content = msgspec.json.format(msgspec.json.encode(self), indent=1)
        (folder / f"{self.name}.json").write_bytes(content + b"\n")


def found_today(group: Group, name: str, title: str, command: str, findings: Findings) -> Result:
    """Return the result of what has just been measured on this machine."""
    return Result(group, name, title, command, datetime.date.today().isoformat(), machine.facts(), findings)


def read_all(folder: Path = RESULTS) -> list[Result]:
    """Return all results that are kept in a folder, by name."""
    return [msgspec.json.decode(path.read_bytes(), type=Result) for path in sorted(folder.glob("*.json"))]


def shown(findings: Findings) -> str:
    """Return findings for a terminal: tables as aligned lines, claims, then figures."""
    parts = [*findings.about, *map(_aligned, findings.tables)]
    if findings.claims:
        parts.append("\n".join(f"claim: {each.text}: {each.verdict} ({each.seen})" for each in findings.claims))
    if findings.figures:
        parts.append(table(findings.figures))
    return "\n\n".join(parts)


def _aligned(table: Table) -> str:
    rows = [table.header, *table.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    header, *lines = [_line(row, widths) for row in rows]
    return "\n".join(filter(None, [table.title, header, "-" * len(header), *lines, table.note]))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = cells
    return "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()
