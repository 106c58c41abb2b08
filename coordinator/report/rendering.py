"""Templates become pages: whatever comes from a run is escaped, and a figure that is not known says why."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from coordinator.metrics.figures import Figures, Path
from coordinator.units import (
    show_accuracy,
    show_bytes,
    show_count,
    show_epsilon,
    show_joules,
    show_mebibytes,
    show_seconds,
    show_skew,
)
from models.spec import ConfigError

if TYPE_CHECKING:
    from jinja2 import Environment

NOT_INSTALLED = "needs the package jinja2: pip install 'protoedge[report]'"

FILTERS: dict[str, Callable[[float], str]] = {
    "accuracy": show_accuracy,
    "bytes": show_bytes,
    "count": show_count,
    "epsilon": show_epsilon,
    "joules": show_joules,
    "mebibytes": show_mebibytes,
    "seconds": show_seconds,
    "skew": show_skew,
}
"""How a template shows a figure, by unit."""


class ShownFigures(Figures):
    """A summary's figures as text; an unknown one is `n/a`."""

    def show(self, path: Path, unit: str) -> str:
        """Return a figure in its unit."""
        value = self.value(path)
        return "n/a" if value is None else FILTERS[unit](value)


@lru_cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise ConfigError(NOT_INSTALLED) from None
    environment = Environment(
        loader=PackageLoader("coordinator.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({name: _or_unknown(show) for name, show in FILTERS.items()})
    return environment


def _or_unknown(show: Callable[[float], str]) -> Callable[[float | None], str]:
    return lambda value: "n/a" if value is None else show(value)


def live_script() -> str:
    """Return what the live page runs in a browser."""
    return _environment().get_template("live.js").render()


def rendered(template: str, **content: Any) -> str:
    """Return a template filled with content.

    Raises:
        ConfigError: the package that fills templates is not installed.
    """
    made = time.strftime("%Y-%m-%d %H:%M:%S %Z")
    return _environment().get_template(f"{template}.jinja").render(**content, made=made)
