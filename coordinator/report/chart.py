"""The geometry of plots: figures become paths and ticks in the coordinates of an SVG, which a template draws.

A plot is so small that its letters can be read on a phone, and is stretched where there is more room.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

WIDTH, HEIGHT = 400.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 60.0, 12.0, 10.0, 42.0
"""The plot's size and the room around its frame, in units of about a pixel."""

NUM_TICKS = 5

BYTES = (("B", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30), ("TiB", 2.0**40))
SECONDS = (("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0))
"""Units and their sizes, the smallest first."""

MAX_DOTS = 200
"""A curve of more points is drawn without a dot for each."""


@dataclass(frozen=True)
class Axis:
    """What an axis says, from where to where it goes, and its ticks with their labels."""

    title: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    is_log: bool = False

    def share(self, value: float) -> float:
        """Return how far along the axis a value lies, 0 at its start and 1 at its end."""
        if self.is_log:
            return math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


class Dot(NamedTuple):
    """A point of a curve and what is told of it."""

    x: float
    y: float
    told: str


@dataclass(frozen=True)
class Curve:
    """A line through dots (none if it has `is_line` off), and a band around it; `style` numbers colour and dash."""

    label: str
    style: int
    dots: Sequence[Dot]
    band: Sequence[tuple[float, float, float]] = ()
    is_line: bool = True
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Plot:
    """Curves in a frame."""

    x: Axis
    y: Axis
    curves: Sequence[Curve] = ()
    told: str = ""
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM

    @property
    def legend(self) -> list[tuple[str, int]]:
        """Label and style of every curve that has a label."""
        return [(curve.label, curve.style) for curve in self.curves if curve.label]

    def px(self, value: float) -> float:
        """Return where a value of the x axis lies."""
        return round(self.left + self.x.share(value) * (self.right - self.left), 1)

    def py(self, value: float) -> float:
        """Return where a value of the y axis lies."""
        return round(self.bottom - self.y.share(value) * (self.bottom - self.top), 1)

    def line(self, curve: Curve) -> str:
        """Return the path of a curve."""
        return "M" + "L".join(f"{self.px(dot.x):g} {self.py(dot.y):g}" for dot in curve.dots)

    def area(self, curve: Curve) -> str:
        """Return the path around a curve's band."""
        there = [f"{self.px(x):g} {self.py(high):g}" for x, _, high in curve.band]
        back = [f"{self.px(x):g} {self.py(low):g}" for x, low, _ in reversed(curve.band)]
        return f"M{'L'.join([*there, *back])}Z"

    def shown_dots(self, curve: Curve) -> Sequence[Dot]:
        """Return the dots that are drawn."""
        return curve.dots[:: 1 + len(curve.dots) // MAX_DOTS]


@dataclass(frozen=True)
class Bars(Plot):
    """Stacked columns, one for each of `columns`, whose parts have the styles 0, 1, 2 ..."""

    parts: Sequence[str] = ()
    columns: Sequence[tuple[float, Sequence[float], str]] = field(default_factory=list)

    @property
    def column_width(self) -> float:
        """The width of a column."""
        return max(0.5, 0.8 * (self.right - self.left) / (self.x.high - self.x.low))

    def stack(self, part: int) -> str:
        """Return the path of one part of all columns."""
        width, pieces = self.column_width, []
        for x, heights, _ in self.columns:
            low = sum(heights[:part])
            top, bottom = self.py(low + heights[part]), self.py(low)
            if bottom > top:
                pieces.append(f"M{self.px(x) - width / 2:.1f} {bottom:g}V{top:g}h{width:.1f}V{bottom:g}Z")
        return "".join(pieces)


def linear_axis(title: str, values: Sequence[float]) -> Axis:
    """Return an axis over all values, of which there must be one, that begins and ends at a tick."""
    low, high = min(values), max(values)
    step = _step((high - low) or abs(high) or 1.0)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    decimals = next((count for count in range(9) if math.isclose(round(step, count), step)), 9)
    ticks = [(number * step, f"{number * step:,.{decimals}f}") for number in range(first, max(last, first + 1) + 1)]
    return Axis(title, ticks[0][0], ticks[-1][0], ticks)


def round_axis(num_rounds: int) -> Axis:
    """Return the axis of rounds 1 to `num_rounds`, with half a round to spare on either side."""
    step = math.ceil(_step(float(num_rounds)))
    ticks = sorted({1, *range(step, num_rounds + 1, step)})
    return Axis("round", 0.5, num_rounds + 0.5, [(float(round), str(round)) for round in ticks])


def scaled_axis(title: str, values: Sequence[float], units: Sequence[tuple[str, float]]) -> Axis:
    """Return an axis from 0, in the largest of these units that the largest value has one of; it is named last."""
    high = max(*values, 0.0)
    name, size = next(((name, size) for name, size in reversed(units) if high >= size), units[0])
    axis = linear_axis(f"{title} ({name})", [0.0, (high / size) or 1.0])
    return Axis(axis.title, 0.0, axis.high * size, [(tick * size, label) for tick, label in axis.ticks])


def log_axis(title: str, values: Sequence[float]) -> Axis:
    """Return a logarithmic axis over sizes in bytes above 0, with ticks at 1, 10 and 100 of each unit."""
    marks = [(size * count, f"{count} {name}") for name, size in BYTES for count in (1, 10, 100)]
    above = [size for size, _ in marks if size >= max(values)]
    low, high = max(size for size, _ in marks if size <= min(values)), min(above, default=max(values))
    return Axis(title, low, high, [(size, label) for size, label in marks if low <= size <= high], is_log=True)


def _step(span: float) -> float:
    """Return a round step that a span has about `NUM_TICKS` of."""
    rough = span / NUM_TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    return next(factor * size for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= rough * 0.9999)
