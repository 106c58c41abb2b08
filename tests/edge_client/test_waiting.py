"""When people are told again of what a client waits for; times are plain numbers."""

from __future__ import annotations

import math

import pytest

from edge_client.waiting import Wait, Work, in_words


def test_a_wait_is_told_of_every_30_s_with_its_latest_reason() -> None:
    wait = Wait()
    wait.look("the coordinator", 10.0)
    assert (wait.note(39.9, "nobody listens"), wait.note_at) == ([], 40.0)
    assert wait.note(40.0, "nobody listens") == ["still waiting, after 30 s, for the coordinator: nobody listens"]
    wait.look("the coordinator", 41.0)
    assert (wait.note(69.9, "no route"), wait.note_at) == ([], 70.0)
    assert wait.note(70.0, "no route") == ["still waiting, after 60 s, for the coordinator: no route"]


def test_another_thing_to_wait_for_begins_anew() -> None:
    wait = Wait()
    wait.look("the coordinator", 0.0)
    wait.look(Work.NONE, 29.0)
    assert wait.note(30.0) == []
    assert wait.note(59.0) == ["still waiting, after 30 s, for the next run"]


def test_nothing_is_due_before_there_is_something_to_wait_for() -> None:
    assert (Wait().note(1e9), Wait().note_at) == ([], math.inf)


@pytest.mark.parametrize(
    ("duration_s", "words"),
    [
        (30.2, "30 s"),
        (89.0, "89 s"),
        (90.0, "2 min"),
        (3569.0, "59 min"),
        (3571.0, "1 h 0 min"),
        (12_000.0, "3 h 20 min"),
    ],
)
def test_durations_are_in_words(duration_s: float, words: str) -> None:
    assert in_words(duration_s) == words
