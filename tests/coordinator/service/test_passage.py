"""A run's part of a door: what it is handed, and that closing it leaves the door open."""

from __future__ import annotations

from coordinator.clients.door import Arrival, OnArrival, OnBarred, OnEnded, Port
from coordinator.clients.turned_away import TurnedAway
from coordinator.service.hosted import Passage
from wire.encoding import Frames
from wire.messages import Ping
from wire.sockets.tcp import Counters

ARRIVAL = Arrival(b"1", "a", Ping(), None, [], None)


class SharedDoor:
    """A door that several runs use."""

    address = "127.0.0.1:7071"

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Frames]] = []
        self.counted = Counters(100, 10, 1, 0.01, 100, 0, 0.0)

    def send(self, route: bytes, frames: Frames) -> bool:
        self.sent.append((route, frames))
        return True

    def counters(self, route: bytes) -> Counters | None:
        return None if route == b"unknown" else self.counted

    def close(self) -> None:
        raise AssertionError("a run has closed the door of others")


def opened(
    passage: Passage,
    on_arrival: OnArrival = lambda arrival: None,
    on_barred: OnBarred = lambda route, reason: None,
    on_ended: OnEnded = lambda route, counters: None,
) -> Port:
    return passage.open(on_arrival, on_barred, TurnedAway({}, print), on_ended)


def test_it_hands_on_what_comes_while_it_is_open() -> None:
    heard: list[Arrival] = []
    barred: list[tuple[bytes, str]] = []
    passage = Passage(SharedDoor())
    passage.hear(ARRIVAL)
    passage.bar(b"1", "early")
    states = [passage.is_open]
    port = passage.open(
        heard.append, lambda route, reason: barred.append((route, reason)), TurnedAway({}, print), print
    )
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
    port = opened(Passage(door))
    assert port.send(b"1", [b"x"])
    assert (door.sent, port.address) == ([(b"1", [b"x"])], door.address)


def test_it_counts_what_a_connection_comes_to_while_its_client_is_in_the_run() -> None:
    ended: list[tuple[bytes, Counters | None]] = []
    door = SharedDoor()
    passage = Passage(door)
    port = passage.open(
        lambda arrival: None, lambda route, reason: None, TurnedAway({}, print), lambda *told: ended.append(told)
    )
    passage.count_from_now(b"1")
    passage.count_from_now(b"unknown")
    door.counted = Counters(150, 30, 3, 0.02, 150, 0, 0.0)
    assert port.counters(b"1") == Counters(50, 20, 2, 0.02, 150, 0, 0.0)
    assert (port.counters(b"2"), port.counters(b"unknown")) == (door.counted, None)
    passage.ended(b"1", door.counted)
    port.close()
    passage.ended(b"2", door.counted)
    assert ended == [(b"1", Counters(50, 20, 2, 0.02, 150, 0, 0.0))]
