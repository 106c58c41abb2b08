"""How every named part is found: a known name, or `package.module:attribute` for a part that lives elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from models.spec import ConfigError, in_one_line, nearest


def resolve(kind: str, name: str, known: Mapping[str, Any]) -> Any:
    """Return what `name` stands for: ours, another installed package's, or `module:attribute`; a text is imported.

    Args:
        kind: `method`, `net`, `dataset` ...; other packages register theirs as `protoedge.<kind>s`.
        name: what a config says.
        known: ours, by name: the part itself or its `module:attribute`.

    Raises:
        ConfigError: the name is unknown (the nearest known one is named) or cannot be imported.
    """
    target = known.get(name, name if ":" in name else None)
    if target is None:
        everything = {**installed(kind), **known}
        if name not in everything:
            raise ConfigError(f"unknown {kind} {name!r}; {nearest(name, everything)}")
        target = everything[name]
    return _imported(kind, target) if isinstance(target, str) else target


def is_here(name: str) -> bool:
    """Say whether the package of a `package.module:attribute` can be found, running nothing of it; else True."""
    package = name.partition(":")[0].partition(".")[0]
    return ":" not in name or (bool(package) and find_spec(package) is not None)


@lru_cache
def installed(kind: str) -> Mapping[str, str]:
    """Return what other installed packages register as `protoedge.<kind>s`: names and `module:attribute` texts."""
    from importlib.metadata import entry_points  # 2 MB that a daemon with our own parts does not need

    return {entry.name: entry.value for entry in entry_points(group=f"protoedge.{kind}s")}


def _imported(kind: str, target: str) -> Any:
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (Exception, SystemExit) as error:  # whatever a user's module does on import
        raise ConfigError(
            f"{kind} {target!r} cannot be imported: {type(error).__name__}: {in_one_line(str(error))}"
        ) from error
