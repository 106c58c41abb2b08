"""What a run starts from where it goes on with what another one has made."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.config import load
from coordinator.start import read_start
from models.spec import ConfigError
from tests.coordinator.report.runs import SETTINGS, RecordedRun


def test_damaged_accounts_of_the_other_run_are_named(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.write_prototypes()
    folder = recorded.end()
    spec = load(None, SETTINGS).unchecked_spec("next", ["a", "b", "c", "d"])
    assert read_start(folder.path, spec).classes == frozenset({0, 1, 2})
    folder.metrics_path.write_bytes(b"\xff\x00{[junk")
    with pytest.raises(ConfigError, match=r"--init-from .*metrics\.jsonl: expected the accounts of a run"):
        read_start(folder.path, spec)
