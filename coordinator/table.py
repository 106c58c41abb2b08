"""The table at the end of a run: its figures in plain text, at most `WIDTH` columns wide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.metrics.accuracy import clients_in_words
from coordinator.metrics.figures import Figures
from coordinator.metrics.origin import origin_in_words
from coordinator.metrics.summary import PEAKS
from coordinator.metrics.task_scores import BEST_OF_TASKS, accuracies_at_end
from coordinator.units import (
    show_accuracy,
    show_bytes,
    show_count,
    show_epsilon,
    show_joules,
    show_mebibytes,
    show_seconds,
)

WIDTH = 100

Show = Callable[[float], str]
Keys = tuple[str, ...]


class Row(NamedTuple):
    """A row of a section; `note` stands behind its last cell."""

    label: str
    cells: Sequence[str]
    note: str = ""


class _Rows(Figures):
    """Rows of a summary's figures."""

    def row(self, label: str, show: Sequence[Show], *paths: Keys) -> Row:
        """Return a row with the figures at these paths; an empty path leaves its cell empty."""
        found = [self.value(path) if path else "" for path in paths]
        reason = next((self.reason(path) for path, figure in zip(paths, found, strict=True) if figure is None), "")
        if all(figure is None for figure, path in zip(found, paths, strict=True) if path):
            return Row(label, (), f"n/a ({reason})")
        shown = (_shown(figure, form) for figure, form in zip(found, show, strict=True))
        return Row(label, list(shown), f"({reason})" if reason else "")


def final_table(summary: Mapping[str, Any]) -> str:
    """Return the table of a run, from the content of its `summary.json`."""
    figures = _Rows(summary)
    tasks = [_tasks(summary, figures)] if summary.get("tasks") else []
    simulated = [_simulated(figures)] if "simulated" in summary else []
    privacy = [_privacy(summary["privacy"], figures)] if summary.get("privacy") else []
    measured = (_memory(figures), _energy(figures))
    sections = (_accuracy(summary, figures), *tasks, *privacy, _traffic(figures), _time(figures), *simulated, *measured)
    origin = origin_in_words(summary)
    heading = [_title(summary), *([f"started from {origin}"] if origin else [])]
    lines = [*map(_shortened, heading), *(line for section in sections for line in ("", *section))]
    return "\n".join(lines)


def _title(summary: Mapping[str, Any]) -> str:
    rounds = f"{summary['rounds_completed']} of {summary['num_rounds']} rounds"
    failed = summary.get("rounds_failed")
    mode = f"{summary['mode']}, batched" if summary.get("batched") else summary["mode"]
    return (
        f"{summary['method']} ({mode}): {rounds} completed{f', {failed} failed' if failed else ''}, "
        f"{summary['num_clients']} clients, seed {summary['seed']}"
    )


def _accuracy(summary: Mapping[str, Any], figures: _Rows) -> list[str]:
    headline = summary["accuracy"]["rule"]
    if not summary["accuracy_by_rule"]:
        return ["no accuracy: this method tests nothing"]
    show = (show_accuracy, show_count, show_accuracy) * 2
    peak: tuple[Keys, ...] = (("best",), ("best_round",), ("last",))
    columns = (*peak, *(("mean", *path) for path in peak))
    rows = [
        figures.row(
            f"{rule} *" if rule == headline else rule, show, *(("accuracy_by_rule", rule, *path) for path in columns)
        )
        for rule in summary["accuracy_by_rule"]
    ]
    header = Row("accuracy by rule", ("best", "in round", "last", "best mean", "in round", "last mean"))
    note = "* headline; accuracies are weighted by test samples, 'mean' is the plain mean over clients"
    return [*aligned(header, rows), note, *map(_shortened, clients_in_words(summary))]


def _tasks(summary: Mapping[str, Any], figures: _Rows) -> list[str]:
    rules = list(summary["tasks"]["accuracy"])
    means = (("tasks", "final_average_accuracy", rule) for rule in rules)
    rows = [
        figures.row("average of all tasks", [show_accuracy] * len(rules), *means),
        *(
            Row(task, [_shown(accuracy, show_accuracy) for accuracy in accuracies])
            for task, accuracies in accuracies_at_end(summary).items()
        ),
    ]
    return [*aligned(Row("after the last task", rules), rows), BEST_OF_TASKS]


def _privacy(told: Mapping[str, Any], figures: _Rows) -> list[str]:
    clients = told["clients"]
    most = max(clients, key=lambda client: clients[client]["num_releases"], default="")
    paths = (("privacy", "clients", most, key) for key in ("epsilon", "num_releases"))
    row = figures.row("the most of any client", (show_epsilon, show_count), *paths)
    return aligned(Row(f"privacy at delta {told['delta']:g}", ("epsilon", "releases")), [row])


def _traffic(figures: _Rows) -> list[str]:
    def row(label: str, show: Show, key: str, predicted: str = "") -> Row:
        paths = [(way, name) if name else () for way in ("uplink", "downlink") for name in (key, predicted)]
        return figures.row(label, [show] * 4, *paths)

    def apart(label: str, *way: Keys) -> Row:
        up, down = ((*path, "encoded_bytes") if path else () for path in way)
        return figures.row(label, [show_bytes] * 4, up, (), down, ())

    rounds_on_the_wire = figures.row(
        "  in rounds",
        [show_bytes] * 4,
        ("wire", "uplink", "rounds_bytes"),
        (),
        ("wire", "downlink", "rounds_bytes"),
        (),
    )
    rows = [
        row("elements", show_count, "elements", "predicted_elements"),
        row("payload", show_bytes, "payload_bytes", "predicted_payload_bytes"),
        row("encoded", show_bytes, "encoded_bytes"),
        row("on the wire", show_bytes, "wire_bytes"),
        rounds_on_the_wire,
        apart("run constants, encoded", (), ("init",)),
        apart("last evaluation, encoded", ("evaluation", "uplink"), ("evaluation", "downlink")),
    ]
    return aligned(Row("traffic of all rounds", ("up", "predicted", "down", "predicted")), rows)


def _time(figures: _Rows) -> list[str]:
    rows = [
        figures.row(label, [show_seconds] * 2, (key, "median"), (key, "p95"))
        for label, key in (("whole round", "round_s"), ("coordination", "coordination_s"))
    ]
    return aligned(Row("time per round", ("median", "p95")), rows)


def _simulated(figures: _Rows) -> list[str]:
    def row(label: str, *path: str) -> Row:
        return figures.row(label, [show_seconds], ("simulated", *path))

    rows = [
        row("whole run", "total_s"),
        row("to the best accuracy", "to_best_accuracy_s"),
        row("round, median", "round_s", "median"),
        row("round, p95", "round_s", "p95"),
    ]
    return aligned(Row("time on the profiles", ("simulated",)), rows)


def _memory(figures: _Rows) -> list[str]:
    rows = [figures.row(kind, [show_mebibytes], ("memory", f"{kind}_peak_rss_bytes")) for kind in PEAKS]
    return aligned(Row("peak memory (largest of its kind)", ("resident",)), rows)


def _energy(figures: _Rows) -> list[str]:
    row = figures.row("all devices, measured", [show_joules], ("energy", "total_j"))
    return aligned(Row("energy", ("joules",)), [row])


def _shown(figure: Any, show: Show) -> str:
    if figure is None:
        return "n/a"
    return show(figure) if figure != "" else ""


def aligned(header: Row, rows: Sequence[Row], width: int = WIDTH) -> list[str]:
    """Return the lines of a section, at most so wide: labels to the left, cells to the right of their columns."""
    num_columns = len(header.cells)
    whole = [row for row in (header, *rows) if row.cells]
    label_width = max(len(header.label), *(len(row.label) + 2 for row in rows))
    widths = [max(len(row.cells[column]) for row in whole) for column in range(num_columns)]

    def line(label: str, row: Row) -> str:
        cells = [cell.rjust(most) for cell, most in zip(row.cells, widths, strict=False)]
        return _shortened("  ".join([label.ljust(label_width), *cells, row.note]).rstrip(), width)

    return [line(header.label, header), *(line(f"  {row.label}", row) for row in rows)]


def _shortened(line: str, width: int = WIDTH) -> str:
    """Return a line that fits."""
    if len(line) <= width:
        return line
    ending = "...)" if line.endswith(")") else "..."
    return line[: width - len(ending)] + ending
