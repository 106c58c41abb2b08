"""What all tests share: how hypothesis draws its examples, and real processes of which none is left behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.integration.processes import Processes

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Start daemons in a folder of their own; after the test no process may be left."""
    started = Processes(tmp_path)
    yield started
    started.close()
