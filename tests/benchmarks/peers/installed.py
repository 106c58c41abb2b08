"""What each contender takes on disk by itself, and versions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from tests.benchmarks.peers.processes import PeerError

ROOT = Path(__file__).parents[3]

INSTALL_S = 300.0

SOURCES = ("wire", "models", "coordinator", "edge_client", "pyproject.toml", "README.md", "LICENSE")


class Installed(msgspec.Struct, frozen=True, tag=True):
    """A package with all that it needs, as `pip install` leaves it."""

    mib: float


def installed(name: str, folder: Path) -> Installed:
    """Install a package, or this project if its name is empty, into a folder of its own."""
    wanted = name or str(_copied(folder / "source"))
    command = [sys.executable, "-m", "pip", "install", "-qq", "--target", str(folder / "packages"), wanted]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode:
        raise PeerError("expected an installation", done.stderr[-600:])
    files = (path for path in (folder / "packages").rglob("*") if path.is_file())
    return Installed(sum(path.stat().st_size for path in files) / 2**20)


def version_of(package: str) -> str:
    """Return the version of an installed package, "unknown" if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _copied(folder: Path) -> Path:
    """Return a copy of this project, as building it leaves files beside it."""
    folder.mkdir(parents=True)
    for name in SOURCES:
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, folder / name)
    return folder
