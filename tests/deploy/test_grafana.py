"""The Grafana board asks for figures that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from coordinator.dashboard.exposition import exposition
from coordinator.report.reading import read_run
from tests.coordinator.report.runs import RecordedRun

BOARD = Path(__file__).parents[2] / "deploy" / "grafana.json"


def test_every_panel_asks_for_a_figure_by_its_labels(tmp_path: Path) -> None:
    told = exposition(read_run(RecordedRun(tmp_path).end().path))[0].decode()
    targets = [target for panel in json.loads(BOARD.read_text())["panels"] for target in panel["targets"]]
    assert targets
    for target in targets:
        name = target["expr"].partition("{")[0]
        assert f"\n{name}" in told
        for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
            assert re.search(rf"^{name}{{{label}=", told, re.MULTILINE)
