"""The map of a package, its README, names every module and folder of it, and nothing else."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.architecture.source import ROOT


def named(package: Path) -> set[str]:
    """Return what the tables of a package's README name as being there: `module` or `folder/`."""
    rows = (line.split("|")[1] for line in (package / "README.md").read_text().splitlines() if line.startswith("|"))
    return {name.removesuffix(".py") for row in rows for name in re.findall(r"`([\w*]+(?:/|\.py)?)`", row)}


def present(package: Path) -> set[str]:
    """Return the modules and folders of a package."""
    modules = {path.stem for path in package.glob("*.py") if not path.stem.startswith("__")}
    return modules | {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}


FOLDERS = [f"coordinator/{folder}" for folder in ("clients", "store", "metrics", "aggregator", "simulation", "status")]


@pytest.mark.parametrize("package", ["coordinator", *FOLDERS, "edge_client", "models"])
def test_a_map_names_all_that_is_there(package: str) -> None:
    names = named(ROOT / package)
    missing = [each for each in present(ROOT / package) if not any(fnmatch(each, name) for name in names)]
    assert sorted(missing) == []


@pytest.mark.parametrize("package", ["coordinator", *FOLDERS, "edge_client"])
def test_a_map_names_nothing_else(package: str) -> None:
    folder = ROOT / package
    assert named(folder) - present(folder) == set()
