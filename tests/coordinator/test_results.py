"""The results of several runs, a line each."""

from __future__ import annotations

import json
from pathlib import Path

from coordinator.results import Results, read_result
from tests.coordinator.report.runs import RecordedRun


def test_a_line_names_the_rule_of_its_accuracies_and_marks_a_batched_run(tmp_path: Path) -> None:
    plain, batched = (RecordedRun(tmp_path / name).end() for name in ("plain", "batched"))
    batched.write_summary({**json.loads(batched.summary_path.read_text()), "batched": True})
    _, *rows = str(Results(read_result(folder.path) for folder in (plain, batched))).splitlines()
    cells = [row.split() for row in rows]
    assert [row[5] for row in cells] == ["anchor", "anchor"]
    assert (cells[0][-1], cells[1][-1]) == ("B", "batched")
