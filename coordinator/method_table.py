"""The table of all methods, generated from the registry: what each is, and what one client's exchange costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from models import methods
from models.methods.api import Method
from wire.payload import Record

LEGEND = (
    "K classes, T of them in the current task, S in those so far, K_i on the client, A known so far, d features, "
    "P parameters, F buffer entries"
)

COLUMNS = ("name", "summary", "paper", "up", "down", "rules")


@dataclass(frozen=True)
class _Formula:
    """A size as text: the arithmetic of byte prediction, done with symbols for numbers."""

    text: str

    def __add__(self, other: Any) -> Any:
        return self if other == 0 else _Formula(f"{self.text} + {_text(other)}")

    def __radd__(self, other: Any) -> Any:
        return self if other == 0 else _Formula(f"{_text(other)} + {self.text}")

    def __sub__(self, other: Any) -> Any:
        return _Formula(f"{self.text} - {_text(other)}")

    def __mul__(self, other: Any) -> Any:
        return _product(self, other)

    def __rmul__(self, other: Any) -> Any:
        return _product(other, self)


def _product(left: Any, right: Any) -> Any:
    if 0 in (left, right):
        return 0
    factors = [text for text in map(_text, (left, right)) if text != "1"]
    if len(factors) < 2:
        return _Formula(factors[0] if factors else "1")
    return _Formula("·".join(f"({text})" if " + " in text or " - " in text else text for text in factors))


def _symbol(text: str) -> Any:
    return _Formula(text)


class _Settings:
    """A method's default settings, of which those that are whole numbers stand under their own names."""

    def __init__(self, method: Method) -> None:
        self._config = methods.read_config(method, {})

    def __getattr__(self, name: str) -> Any:
        content = getattr(self._config, name)
        return _symbol(name) if type(content) is int else content


def _symbols(method: Method) -> Any:
    """Return stand-ins for `Facts`."""
    return SimpleNamespace(
        config=_Settings(method),
        num_classes=_symbol("K"),
        feature_dim=_symbol("d"),
        num_train=_symbol("n_i"),
        num_classes_held=_symbol("K_i"),
        num_classes_known=_symbol("A"),
        num_parameters=_symbol("P"),
        num_buffers=_symbol("F"),
        rounds_completed=_symbol("t"),
        num_task_classes=_symbol("T"),
        num_seen=_symbol("S"),
    )


def describe_methods() -> list[dict[str, Any]]:
    """Return one row of plain data per method, in the order of their names; `up` and `down` are elements."""
    return [_describe(methods.find(name)) for name in methods.names()]


def format_methods(style: str) -> str:
    """Return the table as `json`, `markdown` or aligned `text`."""
    rows = describe_methods()
    if style == "json":
        return json.dumps(rows, indent=2, ensure_ascii=False)
    cells = [list(COLUMNS), *([_cell(row, column) for column in COLUMNS] for row in rows)]
    if style == "markdown":
        cells.insert(1, ["---"] * len(COLUMNS))
        return "\n".join(f"| {' | '.join(line)} |" for line in cells)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join([*lines, "", f"up, down: elements per client and round; {LEGEND}"])


def _describe(method: Method) -> dict[str, Any]:
    return {
        "name": method.name,
        "summary": method.summary,
        "paper": method.paper,
        "up": {each.name: _elements(each.uplink, each.uplink_dims, method) for each in method.exchanges},
        "down": {each.name: _elements(each.downlink, each.downlink_dims, method) for each in method.exchanges},
        "rules": list(method.rules),
        "headline_rule": method.default_rule,
        "default": method.is_default,
    }


def _elements(record: type[Record], dims: Callable[[Any], Any], method: Method) -> str:
    """Return the elements of a record as a formula, or `varies` where the sizes are more than sums and products."""
    try:
        return _text(record.elements(dims(_symbols(method))))
    except (AttributeError, TypeError, ValueError):
        return "varies"


def _cell(row: dict[str, Any], column: str) -> str:
    content = row[column]
    if column == "name":
        return f"{content} (default)" if row["default"] else str(content)
    if isinstance(content, dict):
        exchanges = [size if len(content) == 1 else f"{name}: {size}" for name, size in content.items()]
        return "; ".join(exchanges)
    return ", ".join(content) if isinstance(content, list) else str(content)


def _text(value: Any) -> str:
    return value.text if isinstance(value, _Formula) else str(value)
