"""A summary's figures by path, and why one of them is unknown: what the table at the end and the pages both show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def _keys(path: Path) -> tuple[str, ...]:
    return tuple(path.split(".")) if isinstance(path, str) else path
