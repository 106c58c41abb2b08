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


def test_what_is_to_be_said_of_accuracies_stands_once_below_and_is_marked_in_the_line_of_each_run(
    tmp_path: Path,
) -> None:
    plain, tasks, fewer, both = (RecordedRun(tmp_path / name).end() for name in ("plain", "tasks", "fewer", "both"))
    num_clients = {"num_clients": {"best": 1, "last": 2}}
    for folder, has_tasks, of_fewer in ((tasks, True, False), (fewer, False, True), (both, True, True)):
        told = json.loads(folder.summary_path.read_text())
        told["accuracy"] |= num_clients if of_fewer else {}
        folder.write_summary({**told, "batched": of_fewer, **({"tasks": {"num_tasks": 2}} if has_tasks else {})})
    lines = str(Results(read_result(folder.path) for folder in (plain, tasks, fewer, both))).splitlines()
    assert [line.rpartition(" B")[2].strip() for line in lines[1:5]] == ["", "[1]", "batched [2]", "batched [1] [2]"]
    assert lines[5:] == [
        "[1] the best and the last of a run with tasks are over the classes seen by that round",
        "[2] anchor: best and last are of different clients: 1 and 2 of 2",
    ]
    assert len(str(Results([read_result(plain.path)])).splitlines()) == 2
