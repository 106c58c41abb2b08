"""What the chaos tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.supervisor import NUM_CLIENTS
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Processes

NEEDED: dict[str, dict[str, float]] = {
    "data": {"num_clients": NUM_CLIENTS},
    "round": {"min_clients": NUM_CLIENTS, "deadline_s": 60.0},
}
"""Every client is needed, and deadlines are longer than any restart."""


@pytest.fixture
def pairs(tmp_path: Path, processes: Processes) -> PairsRun:
    """Run the `pairs` method with clients that are all needed."""
    run = PairsRun(tmp_path, processes)
    run.configure(**NEEDED)
    return run
