"""What the tests of the coordinator share."""

from pathlib import Path

import pytest


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Where a test keeps its store."""
    return tmp_path / "store.sqlite"
