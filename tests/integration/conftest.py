"""What the integration tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Processes


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Start daemons in a folder of their own; after the test no process may be left."""
    started = Processes(tmp_path)
    yield started
    started.close()


@pytest.fixture
def pairs(tmp_path: Path, processes: Processes) -> PairsRun:
    """Run the `pairs` method with two clients, unless the test configures it otherwise."""
    return PairsRun(tmp_path, processes)
