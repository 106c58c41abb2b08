"""The plots of a report: which figures go on which axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coordinator.metrics.series import KINDS, PARTS, Point, Series
from coordinator.report.chart import (
    BYTES,
    SECONDS,
    WIDTH,
    Axis,
    Bars,
    Curve,
    Dot,
    Plot,
    linear_axis,
    log_axis,
    round_axis,
    scaled_axis,
)
from coordinator.report.prototype_map import Plane
from coordinator.report.timeline import COORDINATION, takes_of
from coordinator.units import show_accuracy, show_bytes, show_mebibytes, show_seconds

NUM_STYLES = 8
"""Curves are told apart by so many colours and dashes; those of more begin again."""

SENT = "traffic so far, up and down, all clients"

MAX_NAME = 12
"""A class's name on the map is cut to so many letters."""


LOG_ABOVE = 100.0
"""Bytes that differ by more than this factor are drawn on a logarithmic axis."""


class Track(NamedTuple):
    """One curve of accuracies: its label, points, and the bytes that had been sent by each round."""

    label: str
    points: Sequence[Point]
    sent_bytes: Mapping[int, int]


def tracks_of(series: Series) -> list[Track]:
    """Return a track for each rule of a run."""
    return [Track(rule, points, series.sent_bytes) for rule, points in series.accuracy.items()]


def accuracy_by_round(tracks: Sequence[Track], num_rounds: int, with_bands: bool) -> Plot:
    """Plot accuracies over rounds."""
    curves = [
        Curve(
            track.label,
            style % NUM_STYLES,
            [Dot(point.round, point.weighted, _told(track, point)) for point in track.points],
            [(point.round, point.low, point.high) for point in track.points] if with_bands else (),
        )
        for style, track in enumerate(tracks)
    ]
    return Plot(round_axis(num_rounds), _accuracy_axis(curves), curves, "Accuracy over rounds")


def accuracy_by_bytes(tracks: Sequence[Track]) -> Plot:
    """Plot accuracies over what had been sent until then."""
    curves = [
        Curve(
            track.label,
            style % NUM_STYLES,
            [Dot(track.sent_bytes[point.round], point.weighted, _told(track, point)) for point in track.points],
        )
        for style, track in enumerate(tracks)
    ]
    sent = [dot.x for curve in curves for dot in curve.dots]
    return Plot(_bytes_axis(SENT, sent), _accuracy_axis(curves), curves, "Accuracy over bytes")


def accuracy_by_simulated_time(series: Series) -> Plot | None:
    """Plot accuracies over the time of the device profiles, None without any."""
    at_s = series.simulated_at_s
    if not at_s or not series.accuracy:
        return None
    curves = [
        Curve(
            rule,
            style % NUM_STYLES,
            [
                Dot(at_s[point.round], point.weighted, f"{rule}, round {point.round}: {show_accuracy(point.weighted)}")
                for point in points
            ],
        )
        for style, (rule, points) in enumerate(series.accuracy.items())
    ]
    x = scaled_axis("simulated time on the device profiles", list(at_s.values()), SECONDS)
    return Plot(x, _accuracy_axis(curves), curves, "Accuracy over simulated time")


def round_times(series: Series, num_rounds: int, takes_turns: bool) -> Bars | None:
    """Plot what the duration of each round consists of that is known, None if it never is."""
    timed = [line for line in series.rounds if (line.round_s if takes_turns else line.coordination_s) is not None]
    if not timed:
        return None
    names = [*PARTS, "rest" if takes_turns else COORDINATION]
    columns = []
    for line in timed:
        takes = takes_of(line, series, takes_turns)
        told = [f"{name} {show_seconds(took)}" for name, took in zip(names, takes, strict=True)]
        columns.append((float(line.round), takes, f"round {line.round}: {', '.join(told)}"))
    y = scaled_axis("time", [sum(takes) for _, takes, _ in columns], SECONDS)
    return Bars(round_axis(num_rounds), y, told="What rounds took", parts=names, columns=columns)


def bytes_by_round(series: Series, num_rounds: int) -> Plot:
    """Plot what each round has sent, one way and the other."""
    curves = [
        Curve(
            name,
            style,
            [
                Dot(line.round, sent, f"round {line.round}: {show_bytes(sent)} {name}")
                for line in series.rounds
                for sent in [getattr(line, way).encoded_bytes]
            ],
        )
        for style, (name, way) in enumerate((("up", "up"), ("down", "down")))
    ]
    y = scaled_axis("encoded, all clients", [dot.y for curve in curves for dot in curve.dots], BYTES)
    return Plot(round_axis(num_rounds), y, curves, "Traffic of each round")


def peaks_by_round(series: Series, num_rounds: int) -> Plot | None:
    """Plot the largest peak of memory of each kind of process, None if none is known of a round alone."""
    curves = [
        Curve(
            kind,
            style,
            [
                Dot(round, peak, f"round {round}: {kind} {show_mebibytes(peak)}")
                for round, peak in sorted(peaks.items())
            ],
        )
        for style, kind in enumerate(KINDS.values())
        if (peaks := series.peaks.get(kind))
    ]
    if not curves:
        return None
    y = scaled_axis("peak memory", [dot.y for curve in curves for dot in curve.dots], BYTES)
    return Plot(round_axis(num_rounds), y, curves, "Peak memory of each round, the largest of its kind")


def front(labels: Sequence[str], spots: Sequence[tuple[float, float]]) -> Plot:
    """Plot each run's best accuracy against the bytes until then, and the line of those that no other beats in both."""
    runs = [
        Curve(
            label,
            style % NUM_STYLES,
            [Dot(sent, best, f"{label}: {show_accuracy(best)} after {show_bytes(sent)}")],
            is_line=False,
        )
        for style, (label, (sent, best)) in enumerate(zip(labels, spots, strict=True))
    ]
    line = Curve("", NUM_STYLES, [Dot(*spot, "") for spot in undominated(spots)])
    x = _bytes_axis("encoded bytes until then", [sent for sent, _ in spots])
    return Plot(x, _accuracy_axis(runs, "best accuracy"), [line, *runs], "Accuracy against bytes")


def undominated(spots: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the pairs of bytes and accuracy of which no other has as few bytes and as good an accuracy, by bytes."""
    found: list[tuple[float, float]] = []
    for sent, accuracy in sorted(spots, key=lambda spot: (spot[0], -spot[1])):
        if not found or accuracy > found[-1][1]:
            found.append((sent, accuracy))
    return found


def prototype_plot(plane: Plane, classes: Sequence[str]) -> Plot:
    """Plot prototypes: the global ones by name, the local ones tied to the global one of their class."""
    half = 1.12 * max((max(abs(spot.x), abs(spot.y)) for spot in plane.spots), default=0.0) or 1.0
    common = [spot for spot in plane.spots if not spot.client]
    centers = {spot.label: spot for spot in common}
    ties = [
        Curve(
            "", NUM_STYLES, [Dot(spot.x, spot.y, f"{_name(spot.label, classes)} of {spot.client}"), Dot(at.x, at.y, "")]
        )
        for spot in plane.spots
        if spot.client and (at := centers.get(spot.label))
    ]
    names = [_name(spot.label, classes) for spot in common]
    dots = [Dot(spot.x, spot.y, name) for spot, name in zip(common, names, strict=True)]
    shown = [name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…" for name in names]
    x, y = (
        Axis(f"direction {number}: {share:.0%} of the variance", -half, half, ())
        for number, share in enumerate(plane.shares, start=1)
    )
    marks = Curve("global prototype", 0, dots, is_line=False, names=shown)
    room = {"height": 340.0, "bottom": 320.0, "left": 28.0, "right": WIDTH - 4.0, "top": 4.0}
    return Plot(x, y, [*ties, marks], "Global prototypes by class", **room)


def _name(label: int, classes: Sequence[str]) -> str:
    return classes[label] if label < len(classes) else f"class {label}"


def _bytes_axis(title: str, sent: Sequence[float]) -> Axis:
    """Return an axis that is logarithmic if the bytes differ so much that few would be told apart otherwise."""
    known = [size for size in sent if size > 0]
    if known and max(known) > LOG_ABOVE * min(known):
        return log_axis(title, known)
    return scaled_axis(title, sent, BYTES)


def _accuracy_axis(curves: Sequence[Curve], title: str = "accuracy") -> Axis:
    values = [dot.y for curve in curves for dot in curve.dots]
    values += [edge for curve in curves for _, low, high in curve.band for edge in (low, high)]
    return linear_axis(title, values or [0.0, 1.0])


def _told(track: Track, point: Point) -> str:
    sent = show_bytes(track.sent_bytes[point.round])
    return f"{track.label}, round {point.round}: {show_accuracy(point.weighted)} after {sent}"
