"""The wheel: of no platform, and with dependencies that are there ready-made for boards."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow  # it asks the package index


def pip(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it from a copy of what it is made of: a build leaves its files beside that."""
    folder, sources = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("sources")
    for package in ("wire", "models", "coordinator", "edge_client"):
        shutil.copytree(ROOT / package, sources / package)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    pip("wheel", "--no-deps", "--wheel-dir", folder, sources)
    (path,) = folder.iterdir()
    return path


def test_it_is_for_every_platform(wheel: Path) -> None:
    assert wheel.name.startswith("protoedge-")
    assert wheel.name.endswith("-py3-none-any.whl")


def test_it_has_all_files_of_the_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    packages = (ROOT / package for package in ("wire", "models", "coordinator", "edge_client"))
    files = {path.relative_to(ROOT) for package in packages for path in package.rglob("*") if path.is_file()}
    assert {path.as_posix() for path in files if "__pycache__" not in path.parts} <= names


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_its_dependencies_need_no_compiler_on_arm64(wheel: Path, tmp_path: Path, version: str) -> None:
    where = ("--target", tmp_path, "--platform", "manylinux2014_aarch64", "--python-version", version)
    told = pip("install", "--dry-run", "--ignore-installed", "--only-binary=:all:", *where, wheel)
    (would,) = [line for line in told.splitlines() if line.startswith("Would install")]
    assert all(f" {name}-" in would for name in ("numpy", "pyzmq", "msgpack", "msgspec", "psutil", "safetensors"))
