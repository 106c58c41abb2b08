"""What the integration tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Processes


@pytest.fixture
def pairs(tmp_path: Path, processes: Processes) -> PairsRun:
    """Run the `pairs` method with two clients, unless the test configures it otherwise."""
    return PairsRun(tmp_path, processes)
