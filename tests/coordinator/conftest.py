"""What the tests of the coordinator share."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.report.reading import Run, read_run
from tests.coordinator.report.runs import RecordedRun


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """Where a test keeps its store."""
    return tmp_path / "store.sqlite"


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run that ended, with global prototypes."""
    recorded = RecordedRun(tmp_path_factory.mktemp("run"))
    recorded.write_prototypes()
    return read_run(recorded.end().path)
