"""What Python is told of the runs of a service."""

from __future__ import annotations

from coordinator.client_api import Result, Results


def test_the_table_of_results_keeps_all_figures_whatever_the_runs_are_called() -> None:
    run_id = "a-run-of-a-longer-name-20260131-235959-00ff"
    result = Result(run_id, "tinyproto-fp", 0, "interrupted", 1000, 0.9123, 0.9876, 170_291, 160_768)
    header, row = str(Results([result])).splitlines()
    assert header.split() == ["run", "method", "seed", "outcome", "rounds", "last", "best", "up", "down"]
    assert row.split()[-4:] == ["166.3", "KiB", "157.0", "KiB"]
