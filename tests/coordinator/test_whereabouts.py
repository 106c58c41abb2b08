"""Whether a run goes on and how it ended, whoever of its folder, its service and its process says so."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Literal

import psutil
import pytest

from coordinator.config import load
from coordinator.display import Display
from coordinator.service.place import Place
from coordinator.service.queue import RUNS, Entry, Queue
from coordinator.store.record import RunRecord
from coordinator.store.run_folder import RunFolder
from coordinator.whereabouts import whereabouts
from tests.coordinator.report.runs import RecordedRun
from tests.coordinator.stores import figures, stored_run


def told(folder: RunFolder) -> tuple[str, str, str]:
    """Return what is said of a run, without what says it."""
    return whereabouts(folder)[:3]


def test_a_run_of_no_service_goes_on_while_a_process_has_it(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    assert told(recorded.settle()) == ("running", "", "")
    assert told(recorded.leave()) == ("unfinished", "", "")
    assert told(recorded.end()) == ("over", "finished", "")


@pytest.mark.parametrize(
    ("entry", "ended", "expected"),
    [
        (Entry("run", "queued"), None, ("queued", "", "")),
        (Entry("run", "queued"), ("interrupted", "stopped"), ("queued", "", "")),
        (Entry("run", "running"), None, ("unfinished", "", "")),
        (Entry("run", "running"), ("interrupted", "stopped by SIGTERM"), ("stopped", "", "")),
        (Entry("run", "running"), ("failed", "no quorum"), ("over", "failed", "no quorum")),
        (Entry("run", "over", "finished"), ("finished", ""), ("over", "finished", "")),
        (Entry("run", "over", "failed"), ("failed", "no quorum"), ("over", "failed", "no quorum")),
        (Entry("run", "over", "failed", "no data"), ("interrupted", "stopped"), ("over", "failed", "no data")),
        (Entry("run", "over", "interrupted"), ("interrupted", "stopped"), ("over", "interrupted", "stopped")),
        (Entry("run", "over", "interrupted", "stopped"), ("finished", ""), ("over", "finished", "")),
        (Entry("run", "over", "interrupted", "stopped"), ("failed", "no quorum"), ("over", "failed", "no quorum")),
        (Entry("run", "over", "failed", "no quorum"), ("finished", ""), ("over", "finished", "")),
        (Entry("run", "over", "cancelled"), ("interrupted", "stopped"), ("over", "cancelled", "")),
        (Entry("run", "over", "cancelled"), ("failed", "no quorum"), ("over", "cancelled", "")),
        (Entry("run", "over", "cancelled", "cancelled"), None, ("over", "cancelled", "")),
    ],
)
def test_of_a_run_of_a_service_the_queue_speaks_first(
    tmp_path: Path, entry: Entry, ended: tuple[str, str] | None, expected: tuple[str, str, str]
) -> None:
    folder = stored_run(tmp_path / RUNS, "serve")
    if ended is not None:
        outcome, reason = ended
        folder.write_summary(figures(outcome=outcome, reason=reason))
    Queue(tmp_path).put(Entry(folder.run_id, entry.state, entry.outcome, entry.reason))
    assert told(folder) == expected


@pytest.mark.parametrize("state", ["queued", "running", "over"])
def test_a_run_of_a_service_that_another_process_goes_on_with_is_running_and_of_no_service(
    tmp_path: Path, state: Literal["queued", "running", "over"]
) -> None:
    recorded, outcome = RecordedRun(tmp_path / RUNS), "interrupted" if state == "over" else ""
    entry = Entry(recorded.folder.run_id, state, outcome, outcome and "stopped")
    Queue(tmp_path).put(entry)
    recorded.folder.write_summary(figures(outcome="interrupted", reason="stopped"))  # of the time before
    assert whereabouts(recorded.settle()) == ("running", "", "", psutil.Process(), None)
    place = Place(tmp_path)  # from now on this process is the service
    by_service = whereabouts(recorded.folder)
    assert (by_service.outcome, by_service.queue is None) == (outcome, False)
    place.leave()
    recorded.leave()


def test_a_run_with_its_store_in_memory_has_a_process_as_any(tmp_path: Path) -> None:
    config = load(None, [f"run.dir={tmp_path}", "run.store=memory"])
    folder = RunFolder.create(config, "20260131-235959")
    with contextlib.closing(RunRecord(folder, config, "serve", tmp_path, Display(io.StringIO(), False), None)):
        assert told(folder) == ("running", "", "")
        assert not folder.store_path.exists()
    assert told(folder) == ("unfinished", "", "")


def test_a_process_that_was_killed_and_not_yet_waited_for_has_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files can be looked at no more, like those of another account."""
    recorded = RecordedRun(tmp_path)

    def refused(process: psutil.Process) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil.Process, "open_files", refused)
    assert told(recorded.settle())[0] == "running"
    monkeypatch.setattr(psutil.Process, "status", lambda process: psutil.STATUS_ZOMBIE)
    assert told(recorded.leave())[0] == "unfinished"


@pytest.mark.parametrize(("tells", "state"), [(True, "unfinished"), (False, "running")])
def test_a_process_of_another_account_that_has_the_number_of_an_earlier_one_has_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tells: bool, state: str
) -> None:
    """Where the system does not tell who has which lock that cannot be known."""

    def refused(process: psutil.Process) -> None:
        raise psutil.AccessDenied

    folder = RecordedRun(tmp_path).leave()
    monkeypatch.setattr(psutil.Process, "open_files", refused)
    if not tells:
        monkeypatch.setattr("coordinator.store.holder.LOCKS", tmp_path / "locks")
    assert told(folder)[0] == state
