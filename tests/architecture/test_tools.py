"""The style and type checkers find nothing to say."""

import subprocess
import sys

import pytest

from tests.architecture.source import ROOT


def run_tool(name: str, *arguments: str) -> None:
    """Run a checker on the whole tree, with the configuration of `pyproject.toml`."""
    pytest.importorskip(name, reason=f"{name} is not installed")
    command = [sys.executable, "-m", name, *arguments]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_ruff_finds_no_fault() -> None:
    run_tool("ruff", "check")


def test_every_file_is_formatted() -> None:
    run_tool("ruff", "format", "--check")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_types_are_sound() -> None:
    run_tool("mypy")
