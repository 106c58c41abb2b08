"""The source tree as data: which modules there are, and what their syntax trees import and say."""

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("wire", "models", "coordinator", "edge_client")


class Module(NamedTuple):
    """One file of the four packages."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def short_path(self) -> str:
        """The path from the repository's root, for messages."""
        return self.path.relative_to(ROOT).as_posix()


@lru_cache
def modules() -> tuple[Module, ...]:
    """All modules of the four packages, in order of their names."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return tuple(sorted(Module(_name(path), path, ast.parse(path.read_text(), str(path))) for path in paths))


@lru_cache
def method_folders() -> tuple[str, ...]:
    """The names of the folders in which methods live here."""
    return tuple(sorted(path.parent.name for path in (ROOT / "models/methods").glob("*/__init__.py")))


def imported_names(node: ast.AST) -> Iterator[str]:
    """Full dotted names of all that is imported anywhere below `node`."""
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)


def is_within(name: str, package: str) -> bool:
    """Whether a dotted name is `package` or something in it."""
    return f"{name}.".startswith(f"{package}.")


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
