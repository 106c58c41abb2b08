"""What a benchmark measured: figures beside their targets and limits, and the table of them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

NOTE = "spread: smallest .. largest; for coordination and round: median .. 95th percentile over the rounds"


class Skipped(Exception):
    """A benchmark that cannot run here; the text says why."""


@dataclass(frozen=True)
class Figure:
    """One figure: the median of what was measured, with its spread.

    `target` is a bound that the project has set itself. `limit` is what the same machine takes, in the same run, for
    the least that could do the job.
    """

    name: str
    unit: str
    median: float
    smallest: float
    largest: float
    num_samples: int
    target: float | None = None
    at_least: bool = False
    limit: float | None = None
    limit_name: str = ""

    @classmethod
    def of(cls, name: str, unit: str, samples: Sequence[float], **about: Any) -> Figure:
        """Return the figure that these samples make; see the fields for what can be said about it."""
        return cls(name, unit, statistics.median(samples), min(samples), max(samples), len(samples), **about)

    @classmethod
    def of_rounds(cls, name: str, spread: dict[str, float], num_rounds: int, **about: Any) -> Figure:
        """Return the figure of a summary's durations, of which median and 95th percentile are known, in ms."""
        median, p95 = 1000 * spread["median"], 1000 * spread["p95"]
        return cls(name, "ms", median, median, p95, num_rounds, **about)

    @property
    def verdict(self) -> Literal["reached", "missed", ""]:
        """Whether the median keeps to the target."""
        if self.target is None:
            return ""
        kept = self.median >= self.target if self.at_least else self.median < self.target
        return "reached" if kept else "missed"


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the least-squares slope of ys over xs."""
    return float(np.polyfit(xs, ys, 1)[0])


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as aligned lines."""
    header = ("figure", "target", "median", "spread", "samples", "of limit", "verdict")
    rows = [header, *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:], NOTE])


def _row(figure: Figure) -> tuple[str, ...]:
    bound = "" if figure.target is None else f"{'>=' if figure.at_least else '<'} {figure.target:g}"
    ratio = shown_ratio(figure)
    return (
        f"{figure.name} ({figure.unit})",
        bound,
        shown_number(figure.median),
        f"{shown_number(figure.smallest)} .. {shown_number(figure.largest)}",
        str(figure.num_samples),
        ratio,
        figure.verdict,
    )


def shown_number(number: float) -> str:
    """Return a figure with four digits."""
    return f"{number:.4g}" if abs(number) < 10_000 else f"{number:,.0f}"


def shown_ratio(figure: Figure) -> str:
    """Return how many times its limit a figure is, and the limit; nothing for one that has none."""
    if not figure.limit:
        return ""
    return f"{shown_number(figure.median / figure.limit)} x {figure.limit_name} ({shown_number(figure.limit)})"
