"""How every named part is found: a known name, or `package.module:attribute` for a part that lives elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from models.spec import ConfigError, nearest


def resolve(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    """Return what `name` stands for; a known target that is itself a `module:attribute` text is imported.

    Raises:
        ConfigError: the name is unknown (the nearest known one is named) or cannot be imported.
    """
    target = known.get(name, name if ":" in name else None)
    if target is None:
        raise ConfigError(f"unknown {kind} {name!r}; {nearest(name, known)}")
    return _imported(kind, target) if isinstance(target, str) else target


@lru_cache
def installed(group: str) -> Mapping[str, str]:
    """Return what other installed packages register as `protoedge.<group>`: names and `module:attribute` texts."""
    return {entry.name: entry.value for entry in entry_points(group=f"protoedge.{group}")}


def _imported(kind: str, target: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{kind} {target!r} cannot be imported: {error}") from None
