"""What all tests share: how hypothesis draws its examples, and real processes of which none is left behind.

`--method mymethod:METHOD` holds a method from the working folder to what `models/methods/test_conformance.py` asks of
all.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.integration.processes import Processes

settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "hold this method, `module:attribute`, to the conformance tests, in place of the registered ones"
    parser.addoption("--method", metavar="NAME", help=told)


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup: what tests start would ignore it as well
        signal.signal(signal.SIGHUP, lambda *_: None)
    if config.getoption("--method"):
        sys.path.append(str(config.invocation_params.dir))


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Start daemons in a folder of their own; after the test no process may be left."""
    started = Processes(tmp_path)
    yield started
    started.close()
