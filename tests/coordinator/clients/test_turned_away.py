"""What is turned away: counted always, told of seldom."""

from __future__ import annotations

from coordinator.clients.turned_away import LINE_EVERY_S, MAX_LINES, TurnedAway


class Told:
    def __init__(self) -> None:
        self.at = 0.0
        self.lines: list[str] = []
        self.turned_away = TurnedAway({"junk": 2}, self.lines.append, lambda: self.at)


def test_the_first_are_told_of_and_all_are_counted() -> None:
    told = Told()
    for number in range(1000):
        told.turned_away.add("junk", f"number {number}")
    assert told.lines == [f"turned away (junk): number {number}" for number in range(MAX_LINES)]
    assert told.turned_away.counts == {"junk": 1002}


def test_later_there_is_a_line_now_and_then_that_says_how_many_there_were() -> None:
    told = Told()
    for second in range(3601):
        told.at = float(second)
        told.turned_away.add("junk", "more")
    assert len(told.lines) == MAX_LINES + 3600 // LINE_EVERY_S
    assert told.lines[-1] == "turned away (junk): more; and 29 more since the last such line"


def test_one_kind_does_not_hide_another() -> None:
    told = Told()
    for _ in range(100):
        told.turned_away.add("junk", "x")
    told.turned_away.add("revoked", "the key of a was revoked")
    assert told.lines[-1] == "turned away (revoked): the key of a was revoked"


def test_a_line_is_short_whatever_it_quotes() -> None:
    told = Told()
    told.turned_away.add("junk", "x" * 100_000)
    assert len(told.lines[0]) < 400
