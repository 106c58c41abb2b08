"""When people are told what a queue waits for."""

import asyncio

import pytest

from coordinator.service import waiting
from coordinator.service.waiting import LOOK_EVERY_S, NOTE_EVERY_S, QueueNotes, tell_queue


def test_a_queue_is_told_of_when_it_changes_and_at_least_every_30_s() -> None:
    notes = QueueNotes()
    looks = range(0, 101, int(LOOK_EVERY_S))
    assert [at for at in looks if notes.look(["a", "b"] if at < 75 else ["b"], float(at))] == [0, 30, 60, 75]
    assert NOTE_EVERY_S == 30


def test_an_empty_queue_is_not_told_of() -> None:
    notes = QueueNotes()
    assert [notes.look(queued, at) for queued, at in (([], 0.0), (["a"], 3.0), ([], 6.0), (["a"], 9.0))] == [
        False, True, False, True,
    ]  # fmt: skip


def test_the_first_run_is_told_of_with_why_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LOOK_EVERY_S", 0.0)

    async def first_line() -> str:
        line: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        telling = asyncio.create_task(tell_queue(lambda: ["a", "b"], "{} needs clients".format, line.set_result))
        await line
        telling.cancel()
        return line.result()

    assert asyncio.run(first_line()) == "a is queued: a needs clients; 1 more behind it"
