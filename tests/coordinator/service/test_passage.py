"""A run's part of a door: what it is handed, and that closing it leaves the door open."""

from __future__ import annotations

from coordinator.door import Arrival, Frames
from coordinator.service.hosted import Passage
from coordinator.turned_away import TurnedAway
from wire.messages import Ping

ARRIVAL = Arrival(b"1", "a", Ping(), None, [], None)


class SharedDoor:
    """A door that several runs use."""

    address = "127.0.0.1:7071"

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Frames]] = []

    def quiet_s(self, route: bytes) -> float | None:
        return 3.0

    def send(self, route: bytes, frames: Frames) -> bool:
        self.sent.append((route, frames))
        return True

    def close(self) -> None:
        raise AssertionError("a run has closed the door of others")


def test_it_hands_on_what_comes_while_it_is_open() -> None:
    heard: list[Arrival] = []
    barred: list[tuple[bytes, str]] = []
    passage = Passage(SharedDoor())
    passage.hear(ARRIVAL)
    passage.bar(b"1", "early")
    states = [passage.is_open]
    port = passage.open(heard.append, lambda route, reason: barred.append((route, reason)), TurnedAway({}, print))
    states.append(passage.is_open)
    passage.hear(ARRIVAL)
    passage.bar(b"1", "revoked")
    port.close()
    passage.hear(ARRIVAL)
    passage.bar(b"1", "late")
    assert (heard, barred) == ([ARRIVAL], [(b"1", "revoked")])
    assert [*states, passage.is_open] == [False, True, False]


def test_it_sends_by_the_door() -> None:
    door = SharedDoor()
    port = Passage(door).open(lambda arrival: None, lambda route, reason: None, TurnedAway({}, print))
    assert port.send(b"1", [b"x"])
    assert (door.sent, port.quiet_s(b"1"), port.address) == ([(b"1", [b"x"])], 3.0, door.address)
