"""A summary's figures by path, why one is unknown, and what is said beside its accuracies: for tables and pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.metrics.accuracy import clients_in_words
from coordinator.metrics.task_scores import BEST_OF_TASKS

MISSING = "not in the summary"
"""Why a figure is unknown where the summary does not say: an older program has left it out."""

Path = str | tuple[str, ...]
"""Where a figure stands in a summary: its keys from the top, or the same as one text with dots between them."""


class Figures:
    """A summary's figures, and why one that is null or missing is unknown."""

    def __init__(self, summary: Mapping[str, Any]) -> None:
        """Read from the content of a `summary.json`."""
        self._summary = summary
        self._reasons: Mapping[str, str] = summary.get("null_reasons", {})

    def value(self, path: Path) -> Any:
        """Return what stands at a path, None if that is null or not there."""
        content: Any = self._summary
        for key in _keys(path):
            content = content.get(key) if isinstance(content, Mapping) else None
        return content

    def reason(self, path: Path) -> str:
        """Return why a figure is unknown, nothing if it is known; what is part of a null has that one's reason."""
        if self.value(path) is not None:
            return ""
        keys = _keys(path)
        whole = (".".join(keys[:depth]) for depth in range(len(keys), 0, -1))
        return next((self._reasons[each] for each in whole if each in self._reasons), MISSING)


def headline_caveats(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is to be said of a summary's headline accuracies where other runs' stand beside them."""
    accuracy = summary.get("accuracy") or {}
    if accuracy.get("best") is None:
        return ()
    tested = clients_in_words({**summary, "accuracy_by_rule": {accuracy["rule"]: accuracy}})
    return (*([BEST_OF_TASKS] if summary.get("tasks") else []), *tested)


def footnotes(caveats: Sequence[Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return for each row of a table the marks of its caveats, such as `[1] [2]`, and the lines that explain them."""
    numbers: dict[str, int] = {}
    marks = [" ".join(f"[{numbers.setdefault(each, len(numbers) + 1)}]" for each in of_row) for of_row in caveats]
    return marks, [f"[{number}] {caveat}" for caveat, number in numbers.items()]


def _keys(path: Path) -> tuple[str, ...]:
    return tuple(path.split(".")) if isinstance(path, str) else path
