"""Where a run stands, for people and for programs."""

from __future__ import annotations

import io
import json
import os
import re
import time
from pathlib import Path

import msgspec
import pytest

from coordinator.config import load
from coordinator.metrics.links import LinkCounts, StoredLinks
from coordinator.status.reading import CLEAR, read_status, watch
from coordinator.status.text import format_status, json_status
from coordinator.store.run_folder import RunFolder
from models.spec import ConfigError
from tests.coordinator.accounting import READY
from tests.coordinator.report.runs import RecordedRun
from tests.coordinator.stores import figures, stored_run


class Terminal(io.StringIO):
    """A stream that a person sits behind."""

    def isatty(self) -> bool:
        return True


def test_a_run_that_goes_on_says_where_it_is(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    status = read_status(recorded.settle().path)
    recorded.leave()
    assert status.process == os.getpid()
    assert (status.outcome, status.round, status.rounds_completed) == (None, 3, 2)
    assert status.accuracy == {"head": (2, 37 / 40), "local_prototype": (2, 9 / 10), "anchor": (1, 35 / 40)}
    assert status.clients["ann"].train_s == 0.125
    assert status.clients["bob"].status == "missing"


def test_a_round_that_failed_says_who_answered_and_who_did_not(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.fail(3, 20.0)
    status = read_status(recorded.settle().path)
    recorded.leave()
    told = {client: (line.round, line.status) for client, line in status.clients.items()}
    assert told == {"ann": (3, "accepted"), "bob": (3, "missing")}


def test_a_run_that_was_killed_says_how_it_goes_on(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path, mode="serve")
    goes_on = format_status(read_status(recorded.settle().path))
    status = read_status(recorded.leave().path)
    assert (status.outcome, status.process) == (None, None)
    told = f"it was killed, or runs elsewhere; to go on: coordinator serve --resume {recorded.folder.path}"
    assert told in format_status(status)
    assert "no process" not in goes_on
    assert "no process" not in format_status(read_status(recorded.end().path))


def test_a_run_that_failed_says_why_and_how_it_goes_on(tmp_path: Path) -> None:
    folder = RecordedRun(tmp_path, mode="serve").end()
    reason = "3 rounds failed in a row (max_failed_rounds)"
    folder.write_summary({**folder.read_summary(), "outcome": "failed", "reason": reason})
    status = read_status(folder.path)
    assert (status.state, status.reason) == ("over", reason)
    told = format_status(status)
    assert f"over (failed: {reason})" in told
    assert f"to go on: coordinator serve --resume {folder.path} --set round.max_failed_rounds=N" in told


def test_a_run_whose_folder_was_renamed_says_which_name_it_needs_to_go_on(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path, mode="serve")
    recorded.put_fact("run_id", recorded.folder.run_id)
    folder = recorded.leave()
    renamed = folder.path.rename(tmp_path / "my run")
    status = read_status(renamed)
    assert (status.run_id, status.begun_as) == ("my run", folder.run_id)
    told = format_status(status)
    assert f"first give the folder the name again that the run was begun with: mv '{renamed}' {folder.path}" in told
    assert "--resume" not in told


def test_a_run_that_has_used_up_its_rounds_cannot_go_on(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path, mode="serve")
    recorded.fail(3, 20.0)
    folder = recorded.end()
    folder.write_summary({**folder.read_summary(), "outcome": "failed", "reason": "no round was completed"})
    assert "to go on" not in format_status(read_status(folder.path))


def test_of_a_run_in_memory_that_is_over_only_the_figures_are_left(tmp_path: Path) -> None:
    folder = RunFolder.create(load(None, [f"run.dir={tmp_path}", "run.store=memory"]), "20260131-235959")
    folder.write_summary(figures(outcome="finished"))
    with pytest.raises(ConfigError, match=r"-\w+ was kept in memory and is over \(finished\): .*coordinator report"):
        read_status(folder.path)


def test_of_a_run_that_is_over_and_has_lost_its_store_only_the_figures_are_left(tmp_path: Path) -> None:
    folder = stored_run(tmp_path, "serve")
    folder.write_summary(figures(outcome="finished"))
    folder.store_path.unlink()
    with pytest.raises(ConfigError, match=r"has lost its store\.sqlite and is over \(finished\).*coordinator report"):
        read_status(folder.path)


def test_the_text_has_units_and_aligned_columns(tmp_path: Path) -> None:
    lines = format_status(read_status(RecordedRun(tmp_path).end().path)).splitlines()
    assert lines[0].endswith("over (finished)")
    assert lines[1] == "rounds: 2 of 3 completed, the last in 6.00 s"
    table = lines[lines.index("") + 1 :]
    (ann,) = [line.split() for line in table if line.startswith("  ann")]
    assert ann == ["ann", "2", "accepted", "0.12", "s", "1.00", "s", "50", "B", "60", "B"]
    (bob,) = [line.split() for line in table if line.startswith("  bob")]
    assert bob[:4] == ["bob", "2", "missing", "n/a"]
    assert len({len(line) for line in table if line.startswith(("clients'", "  ann", "  bob"))}) == 1


def test_messages_that_could_not_be_delivered_are_told_by_client(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.put_fact("undelivered", json.dumps({"bob": 1, "ann": 2}))
    status = read_status(recorded.end().path)
    assert status.undelivered == {"bob": 1, "ann": 2}
    assert "messages not delivered: ann 2, bob 1" in format_status(status).splitlines()


def test_a_watched_run_is_told_of_until_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = RecordedRun(tmp_path)
    path = recorded.settle().path
    waits: list[float] = []

    def end_after_the_second(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            recorded.end()

    monkeypatch.setattr("coordinator.status.reading.time.sleep", end_after_the_second)
    stream = io.StringIO()
    watch(path, lambda status: str(status.outcome), 0.5, stream)
    told = stream.getvalue().splitlines()
    assert told == ["None", "None", "finished"]
    assert waits == [0.5, 0.5]


@pytest.mark.parametrize(("stream", "times"), [(io.StringIO(), 0), (Terminal(), 1)])
def test_only_a_terminal_is_cleared(tmp_path: Path, stream: io.StringIO, times: int) -> None:
    watch(RecordedRun(tmp_path).end().path, format_status, 1.0, stream)
    assert stream.getvalue().count(CLEAR) == times


def test_programs_are_told_all_of_it_in_ascii(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.put_fact("waiting", json.dumps({"ann": "wärmer weather"}))
    status = read_status(recorded.end().path)
    text = json_status(status)
    assert text.isascii()
    assert len(text.splitlines()) == 1
    told = json.loads(text)
    assert list(told) == list(type(status).__struct_fields__)
    assert (told["outcome"], told["waiting"]) == ("finished", {"ann": "wärmer weather"})
    assert told["clients"]["bob"]["status"] == "missing"
    assert told["accuracy"]["head"] == [2, 37 / 40]


def test_no_run_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a run folder"):
        read_status(tmp_path)


def test_who_waits_is_told_with_what_for_while_the_run_goes_on(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.put_fact("waiting", json.dumps({"bob": "[schedule] windows = 22:00-06:00"}))
    status = read_status(recorded.settle().path)
    assert format_status(status).splitlines()[2] == "bob waits for [schedule] windows = 22:00-06:00"
    recorded.end()


def test_devices_and_their_connections_are_told(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.store.put_device("ann", json.dumps({"board": "Jetson Nano", "cpu": "ARM", "memory_bytes": 4 * 2**30}))
    links = StoredLinks({"ann": LinkCounts(7168, 1024, num_connections=2, rtt_s=0.002)})
    recorded.store.put_meta("links", msgspec.json.encode(links).decode())
    status = read_status(recorded.settle().path)
    recorded.leave()
    assert status.connections["ann"]["up_bytes"] == 7168
    table = [line.split() for line in format_status(status).splitlines() if line.startswith("  ann")]
    assert ["ann", "7.0", "KiB", "1.0", "KiB", "2", "0", "2.0", "ms"] in table
    assert ["ann", "Jetson", "Nano", "ARM", "none", "4.0", "GiB"] in table


def test_a_run_that_waits_to_open_says_what_for_and_who_is_there(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path, num_rounds=0)
    at_s = time.time() - 20
    heard_at_s = {"ann": at_s - 75, "bob": at_s}
    presence = {"waits_for": "waiting for clients 1/2", "heard_at_s": heard_at_s, "at_s": at_s, "ready": ["ann"]}
    recorded.put_fact("presence", json.dumps(presence))
    status = read_status(recorded.settle().path)
    lines = format_status(status).splitlines()
    assert (status.waits_for, list(status.connected)) == ("waiting for clients 1/2", ["ann", "bob"])
    assert lines[2] == "waiting for clients 1/2"
    assert status.connected == {"ann": 75.0, "bob": 0.0}
    assert status.seen_s_ago is not None
    assert 20 <= status.seen_s_ago < 60
    assert re.match(r"clients 2\d(\.\d+)? s ago +phase +silent for", lines[-3])
    assert [line.split() for line in lines[-2:]] == [
        ["ann", "ready", "1", "min", "15", "s"],
        ["bob", "loading", "0.0", "ms"],
    ]
    killed = read_status(recorded.leave().path)
    assert (killed.waits_for, killed.connected, killed.seen_s_ago) == (None, {}, None)


@pytest.mark.parametrize("free", [5000, 2**30, None])
def test_a_run_at_work_on_a_full_disk_may_wait_for_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int | None
) -> None:
    monkeypatch.setattr("coordinator.status.reading.free_bytes", lambda folder: free)
    recorded = RecordedRun(tmp_path)
    status = read_status(recorded.settle().path)
    assert status.free_bytes == free
    told = "its disk has 4.9 KiB free: where that is too little for what it stores, the run waits until there is room"
    assert (told in format_status(status)) == (free == 5000)
    assert told not in format_status(read_status(recorded.leave().path))


@pytest.mark.parametrize(
    ("free", "ago_s", "is_short"), [(0, 20, True), (0, 5, False), (2**30, 20, False), (None, 20, False)]
)
def test_what_a_run_could_not_store_on_a_full_disk_is_that_it_waits_for_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int | None, ago_s: float, is_short: bool
) -> None:
    monkeypatch.setattr("coordinator.status.reading.free_bytes", lambda folder: free)
    recorded, stale = RecordedRun(tmp_path), "waiting for updates 1/2, missing bob"
    recorded.put_fact("presence", json.dumps({"waits_for": stale, "heard_at_s": {}, "at_s": time.time() - ago_s}))
    lines = format_status(read_status(recorded.settle().path)).splitlines()
    recorded.leave()
    assert (stale in lines) != is_short
    assert ("waiting for space on the disk" in lines) == is_short
    assert ("its disk has 0 B free: the run goes on when there is room" in lines) == is_short


def test_a_run_in_an_exchange_says_whom_it_waits_for_as_its_process_does_if_there_is_one(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.open(3)
    why = "waiting for updates 0/2, missing bob (silent); refused: ann, until the deadline in 9 s at most"
    recorded.put_fact("presence", json.dumps({"waits_for": why, "heard_at_s": {}, "at_s": time.time()}))
    lines = format_status(read_status(recorded.settle().path)).splitlines()
    assert lines[2:4] == ["exchange 0 (counted from 0): 0/2 updates", why]
    killed = format_status(read_status(recorded.leave().path)).splitlines()
    assert killed[3] == "exchange 0 (counted from 0): 0/2 updates, waiting for ann, bob"


@pytest.mark.parametrize(("exchange", "name"), [(0, "prototypes"), (1, "adapter"), (2, "evaluation")])
def test_the_open_exchange_of_a_method_that_is_listed_has_its_name(tmp_path: Path, exchange: int, name: str) -> None:
    recorded = RecordedRun(tmp_path, "method.name=refprotofl")
    recorded.store.open_exchange(3, exchange, list(READY), b"", b"")
    status = read_status(recorded.settle().path)
    recorded.leave()
    assert (status.exchange, status.exchange_name) == (exchange, name)
    assert format_status(status).splitlines()[2] == f"exchange {name!r}: 0/2 updates, waiting for ann, bob"
