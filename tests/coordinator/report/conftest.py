"""A run that every test of reports may read."""

from __future__ import annotations

import pytest

from coordinator.report.reading import Run, read_run
from tests.coordinator.report.runs import RecordedRun


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run that ended, with global prototypes."""
    recorded = RecordedRun(tmp_path_factory.mktemp("run"))
    recorded.write_prototypes()
    return read_run(recorded.end().path)
