"""The queue of a service, across its processes."""

from pathlib import Path

import pytest

from coordinator.service.queue import FILE, RUNS, Entry, Queue, queue_of
from coordinator.store.run_folder import RunFolder
from coordinator.store.schema import is_full
from models.spec import ConfigError
from tests.coordinator.service.in_process import fill_the_disk


def test_what_was_put_is_there_for_the_next_process_in_order(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    assert queue.entries == []
    for entry in (Entry("b"), Entry("a"), Entry("b", "running"), Entry("a", "over", "failed", "why")):
        queue.put(entry)
    again = Queue(tmp_path)
    assert again.entries == [Entry("b", "running"), Entry("a", "over", "failed", "why")]
    assert (again.get("b"), again.get("c")) == (Entry("b", "running"), None)


def test_a_run_that_is_queued_anew_stands_behind_the_others(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    for entry in (Entry("a", "over", "interrupted"), Entry("b"), Entry("a")):
        queue.put(entry)
    assert [entry.run_id for entry in queue.entries] == ["b", "a"]


def test_what_cannot_be_written_has_not_happened(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "gone")
    with pytest.raises(OSError, match="gone"):
        queue.put(Entry("a"))
    assert queue.entries == []


def test_what_is_held_is_here_at_once_in_its_place_and_on_disk_when_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(tmp_path)
    for run_id in "ab":
        queue.put(Entry(run_id, "running"))
    over = Entry("a", "over", "interrupted", "why")
    with monkeypatch.context() as patch:
        fill_the_disk(patch)
        queue.hold(over)
        with pytest.raises(OSError, match=r"queue\.json cannot be written: No space left .*; free some disk space$"):
            queue.write()
        with pytest.raises(OSError, match=r"free some disk space; nothing has changed$") as put:
            queue.put(Entry("c"))
        assert is_full(put.value)
    assert queue.entries == [over, Entry("b", "running")]
    assert Queue(tmp_path).entries == [Entry("a", "running"), Entry("b", "running")]
    queue.write()
    assert Queue(tmp_path).entries == queue.entries


@pytest.mark.parametrize("content", ["", "{}", '[{"run_id": 1}]', '[{"run_id": "a", "state": "lost"}]'])
def test_a_file_that_is_no_queue_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(
        ConfigError, match=r"queue\.json: expected the queue of a service: .*; without the file a queue is begun anew"
    ):
        Queue(tmp_path)


def test_the_queue_of_a_run_is_that_of_the_service_which_has_it(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    queue.put(Entry("a"))
    found = queue_of(RunFolder(tmp_path / RUNS / "a"))
    assert found is not None
    assert (found.folder, found.entries) == (tmp_path, queue.entries)


@pytest.mark.parametrize("run", ["elsewhere/a", f"{RUNS}/b", "/"])
def test_a_run_of_no_service_has_no_queue(tmp_path: Path, run: str) -> None:
    Queue(tmp_path).put(Entry("a"))
    assert queue_of(RunFolder(tmp_path / run)) is None


def test_another_file_of_the_name_is_nothing_to_a_run(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{}")
    assert queue_of(RunFolder(tmp_path / RUNS / "a")) is None
