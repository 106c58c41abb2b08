"""A run as its folder has it: ended, killed or kept in memory, and always with the figures of its summary."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from coordinator.report.reading import read_run
from coordinator.service.queue import RUNS, Entry, Queue
from coordinator.store.run_folder import RunFolder
from models.spec import ConfigError
from tests.coordinator.report.runs import RecordedRun
from wire.encoding import encode, pack
from wire.messages import Update
from wire.payload import Payload


def test_a_run_that_ended_is_read_with_its_summary(tmp_path: Path) -> None:
    folder = RecordedRun(tmp_path).end()
    run = read_run(folder.path)
    assert run.outcome == "finished"
    assert run.summary == folder.read_summary()
    assert run.classes == ["a", "b", "c", "d"]
    assert [line.round for line in run.series.rounds] == [1, 2]


@pytest.mark.parametrize("mode", ["loopback", "simulate"])
def test_a_run_without_a_summary_is_summed_up_the_same(tmp_path: Path, mode: str) -> None:
    recorded = RecordedRun(tmp_path, mode=mode)
    run = read_run(recorded.leave().path)
    ended = recorded.end().read_summary()
    assert (run.state, run.outcome) == ("unfinished", "unfinished")
    apart = {"run_id", "method", "outcome", "memory", "versions", "null_reasons", "clients"}
    assert {key: run.summary[key] for key in ended if key not in apart} == {
        key: figure for key, figure in ended.items() if key not in apart
    }
    assert run.summary["null_reasons"]["memory.client_peak_rss_bytes"] == "known when the run ends"


def test_a_run_that_its_service_cancelled_is_cancelled_in_all_that_is_told(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path / RUNS, mode="serve")
    folder = recorded.end()
    folder.write_summary({**folder.read_summary(), "outcome": "interrupted", "reason": "cancelled"})
    Queue(tmp_path).put(Entry(folder.run_id, "over", "cancelled"))
    run = read_run(folder.path)
    assert (run.state, run.outcome, run.summary["outcome"], run.summary["reason"]) == ("over", *["cancelled"] * 2, "")
    Queue(tmp_path).put(Entry(folder.run_id, "queued"))
    run = read_run(folder.path)
    assert (run.state, run.outcome, run.summary["outcome"]) == ("queued", "queued", None)


def test_a_run_that_goes_on_can_be_read(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    run = read_run(recorded.settle().path)
    recorded.leave()
    assert run.summary["rounds_completed"] == 2


@pytest.mark.parametrize("method", ["fedproto", "tinyproto-ft", "gfpl", "refprotofl", "headcal"])
def test_a_run_to_which_no_client_has_come_yet_can_be_read(tmp_path: Path, method: str) -> None:
    """Nothing is known of its classes, and a backbone's file may be elsewhere by now."""
    net = ["model.name=onnx", "model.path=gone.onnx"] if method == "headcal" else []
    recorded = RecordedRun(tmp_path, f"method.name={method}", *net, num_rounds=0)
    recorded.folder.histogram_path.unlink()
    run = read_run(recorded.settle().path)
    recorded.leave()
    assert (run.outcome, run.classes, run.summary["rounds_completed"]) == ("running", [], 0)


def test_the_accounts_of_a_store_in_memory_are_those_of_the_file(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path, "run.store=memory")
    folder = recorded.end()
    folder.store_path.unlink()
    with folder.metrics_path.open("a") as file:
        file.write('{"kind":"client","round":3')  # a line that is being written
    run = read_run(folder.path)
    assert [line.round for line in run.series.rounds] == [1, 2]
    assert run.series.clients["ann"].num_accepted == 4


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a run folder with a config\.toml"):
        read_run(tmp_path)
    folder = RecordedRun(tmp_path).end()
    for path in (folder.store_path, folder.metrics_path, folder.summary_path):
        path.unlink()
    with pytest.raises(ConfigError, match=r"there is no store\.sqlite: the run has not begun"):
        read_run(folder.path)


@pytest.mark.parametrize("content", [b"", b'{"classes"', b"\xff\x00{[junk", b"null", b"[1, 2]", b"[" * 100_000])
def test_a_damaged_histogram_costs_no_more_than_a_missing_one_and_is_named(tmp_path: Path, content: bytes) -> None:
    folder = RecordedRun(tmp_path).end()
    folder.histogram_path.write_bytes(content)
    run = read_run(folder.path)
    assert [fault.partition(": expected")[0] for fault in run.faults] == ["histogram.json"]
    folder.histogram_path.unlink()
    missing = read_run(folder.path)
    assert (missing.faults, missing.samples, missing.series) == ([], run.samples, run.series)


def test_the_store_of_an_older_program_is_not_damaged(tmp_path: Path) -> None:
    folder = RecordedRun(tmp_path).end()
    with closing(sqlite3.connect(folder.store_path)) as store:
        store.executescript("DROP TABLE clients; DROP TABLE devices")
    run = read_run(folder.path)
    assert run.faults == []
    assert [line.round for line in run.series.rounds] == [1, 2]


def test_a_damaged_word_of_a_client_is_told_as_damage_of_the_store(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.store.put_client("ann", b"\x91\x04")
    (fault,) = read_run(recorded.end().path).faults
    assert "store.sqlite: expected the store of a run: header: expected a list" in fault


def test_damaged_global_arrays_are_named(tmp_path: Path) -> None:
    folder = RecordedRun(tmp_path).end()
    folder.global_path.write_bytes(b"junk")
    run = read_run(folder.path)
    assert run.global_prototypes is None
    assert [fault.partition(": expected")[0] for fault in run.faults] == ["global.safetensors"]


def in_memory(parent: Path) -> RunFolder:
    """Return a run that is over and was kept in memory."""
    folder = RecordedRun(parent, "run.store=memory").end()
    folder.store_path.unlink()
    return folder


@pytest.mark.parametrize(
    ("content", "faults"),
    [
        (b"", []),
        (b"\xff\x00{[junk\n", ["metrics.jsonl: lines that are damaged or cut off, and left out: 1"]),
        (b"null\n[1]\n", ["metrics.jsonl: lines that are damaged or cut off, and left out: 2"]),
    ],
)
def test_rounds_whose_accounts_are_missing_are_told(tmp_path: Path, content: bytes, faults: list[str]) -> None:
    folder = in_memory(tmp_path)
    folder.metrics_path.write_bytes(content)
    run = read_run(folder.path)
    assert (run.outcome, run.series.rounds) == ("finished", [])
    assert run.faults == [*faults, "the accounts of rounds 1 to 2 are missing"]


def test_what_a_cut_or_damaged_file_still_has_is_told(tmp_path: Path) -> None:
    folder = in_memory(tmp_path)
    lines = folder.metrics_path.read_bytes().splitlines()
    damaged = [line for line in lines if b'"round":1,' not in line or not line.startswith(b'{"kind":"round"')]
    folder.metrics_path.write_bytes(b"\n".join([*damaged, damaged[-1][:40]]))
    run = read_run(folder.path)
    assert [line.round for line in run.series.rounds] == [2]
    assert run.series.clients["ann"].num_accepted == 4
    assert run.faults == [
        "metrics.jsonl: lines that are damaged or cut off, and left out: 1",
        "the accounts of round 1 are missing",
    ]


def test_accounts_that_are_gone_or_a_folder_are_told(tmp_path: Path) -> None:
    folder = in_memory(tmp_path)
    folder.metrics_path.unlink()
    assert read_run(folder.path).faults == ["the accounts of rounds 1 to 2 are missing"]
    folder.metrics_path.mkdir()
    assert read_run(folder.path).faults[0] == "metrics.jsonl: expected the accounts of a run, got Is a directory"


@pytest.mark.parametrize("left", [None, 0, 100, 20_000])
def test_of_a_run_that_has_lost_its_store_its_file_of_accounts_tells(tmp_path: Path, left: int | None) -> None:
    folder = RecordedRun(tmp_path).end()
    whole = read_run(folder.path)
    content = folder.store_path.read_bytes()
    folder.store_path.unlink()
    if left is not None:
        folder.store_path.write_bytes(content[:left])
    run = read_run(folder.path)
    assert (run.outcome, run.summary, run.series) == ("finished", whole.summary, whole.series)
    assert [fault.partition(": expected")[0] for fault in run.faults] == ["store.sqlite"]
    folder.summary_path.unlink()
    assert read_run(folder.path).summary["rounds_completed"] == 2


def test_local_prototypes_are_those_of_the_open_exchange(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.open(3)
    arrays: dict[str, np.ndarray] = {"prototypes": np.eye(2, dtype=np.float32), "classes": np.array([1, 3], np.uint16)}
    for client, sent in (("ann", arrays), ("bob", {})):
        header, buffer = encode(Update(1, 3, 0, []), pack(Payload.of_state(sent)))
        recorded.put_update(3, client, bytes(header), bytes(buffer))
    run = read_run(recorded.settle().path)
    recorded.leave()
    assert list(run.local_prototypes) == ["ann"]
    assert run.local_prototypes["ann"].classes == [1, 3]


def test_of_a_run_without_a_summary_it_is_known_what_it_was_started_from(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.store.put_meta("start_classes", "[0]")
    recorded.store.put_meta("init_from", '{"run_id":"two-0","round":7,"global_hash":"a1","classes":[0]}')
    summary = read_run(recorded.leave().path).summary
    assert summary["init_from"] == {"run_id": "two-0", "round": 7, "global_hash": "a1", "classes": [0]}
