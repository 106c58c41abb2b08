"""The foyer: who is let in, who is probed, and what is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.clients.door import Arrival
from coordinator.clients.foyer import Events, Foyer, Guest
from coordinator.clients.membership import PROBE_S
from tests.coordinator.hall import quiet
from wire.encoding import Frames, decode
from wire.messages import Goodbye, Hello, Message, Ping, Pong, Refusal, RefusalCode, Update
from wire.sockets.tcp import Counters

IDLE_S = 15.0


class Front:
    """A foyer with lists in place of a door and a service."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Message]] = []
        self.told: list[str] = []
        self.cut: set[bytes] = set()
        self.counters: dict[bytes, Counters] = {}
        self.at = 0.0
        events = Events(
            lambda guest: self.told.append(f"{guest.client} came by {guest.arrival.route.decode()}"),
            lambda guest, reason: self.told.append(f"{guest.client} is gone: {reason}"),
            lambda code, reason: self.told.append(f"{code}: {reason}"),
        )
        self.foyer = Foyer(IDLE_S, self._send, self.counters.get, events)

    def _send(self, route: bytes, frames: Frames) -> bool:
        self.sent.append((route, decode(frames)[0]))
        return route not in self.cut

    def take(self, route: bytes, message: Message, owner: str | None = None) -> Guest | None:
        return self.foyer.take(Arrival(route, owner, message, None, [], None), self.at)

    def hello(self, client: str, route: bytes, incarnation: int = 1, owner: str | None = None, **changes: Any) -> None:
        fields = {"version": (1, 3), "client": client, "incarnation": incarnation, **changes}
        assert self.take(route, Hello(**fields), owner) is None


def refusals(sent: list[tuple[bytes, Message]]) -> list[tuple[bytes, str, bool]]:
    return [(route, told.code, told.permanent) for route, told in sent if isinstance(told, Refusal)]


def test_a_guest_is_known_by_its_connection() -> None:
    front = Front()
    front.hello("a", b"1", device={"tags": ["attic"]})
    guest = front.take(b"1", Ping())
    assert guest is not None
    assert (guest.client, guest.device, guest.stays) == ("a", {"tags": ["attic"]}, True)
    assert front.told == ["a came by 1"]
    assert front.sent == []


def test_an_older_client_does_not_stay() -> None:
    front = Front()
    front.hello("a", b"1", version=(1, 2))
    assert not front.foyer.guests["a"].stays


def test_who_has_not_said_hello_is_asked_to() -> None:
    front = Front()
    assert front.take(b"1", Ping()) is None
    assert front.take(b"2", Goodbye("over")) is None
    assert refusals(front.sent) == [(b"1", RefusalCode.UNKNOWN_SESSION, False)]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"version": (2, 0)}, RefusalCode.VERSION),
        ({"client": "../a"}, RefusalCode.CLIENT_ID),
        ({"owner": "b"}, RefusalCode.KEY),
    ],
)
def test_who_may_be_in_no_run_is_refused(changes: dict[str, Any], code: str) -> None:
    front = Front()
    front.hello(**{"client": "a", "route": b"1", **changes})
    assert refusals(front.sent) == [(b"1", code, True)]
    assert front.foyer.guests == {}
    assert front.told[0].startswith(f"{code}: ")


def test_a_second_process_of_a_live_client_is_refused() -> None:
    front = Front()
    front.hello("a", b"1")
    front.hello("a", b"2", incarnation=2)
    assert front.sent == [(b"1", Ping())]
    front.take(b"1", Pong())
    assert refusals(front.sent) == [(b"2", RefusalCode.DUPLICATE_CLIENT, True)]
    assert front.foyer.guests["a"].hello.incarnation == 1


def test_a_second_process_takes_the_place_of_one_that_does_not_answer() -> None:
    front = Front()
    front.hello("a", b"1")
    front.hello("a", b"2", incarnation=2)
    front.at = PROBE_S
    front.foyer.tick(front.at)
    silent = "a is gone: it did not answer while another process asked for its id"
    assert front.told == ["a came by 1", silent, "a came by 2"]


@pytest.mark.parametrize(
    ("link", "goes_first"),
    [(quiet(0.1), "a large update"), (quiet(PROBE_S + 1.0, unsent_bytes=1000), "a large downlink")],
)
def test_a_live_client_keeps_its_id_while_its_answer_waits_behind_a_long_message(
    link: Counters, goes_first: str
) -> None:
    front = Front()
    front.hello("a", b"1")
    front.counters[b"1"] = link
    for number in range(1, 5):
        front.hello("a", b"2", incarnation=2)
        front.at = number * PROBE_S
        front.foyer.tick(front.at)
    assert [message for _, message in front.sent] == [Ping()], "one that is asked again and again cannot say more"
    front.take(b"1", Update(7, 1, 0))
    assert front.told == ["a came by 1"], goes_first
    front.take(b"1", Pong())
    assert refusals(front.sent) == [(b"2", RefusalCode.DUPLICATE_CLIENT, True)]


def test_what_comes_late_of_a_process_that_was_killed_does_not_cost_the_next_one_its_place() -> None:
    front = Front()
    front.hello("a", b"1")
    front.hello("a", b"2", incarnation=2)
    front.at = PROBE_S
    front.take(b"1", Update(7, 1, 0))
    front.foyer.tick(front.at)
    assert front.told == ["a came by 1"]
    front.at = 2 * PROBE_S
    front.foyer.tick(front.at)
    assert front.told[-1] == "a came by 2"
    assert refusals(front.sent) == []


def test_one_that_takes_nothing_more_in_keeps_its_id_only_as_long_as_it_is_not_silent() -> None:
    front = Front()
    front.hello("a", b"1")
    front.hello("a", b"2", incarnation=2)
    front.counters[b"1"] = quiet(2 * IDLE_S, unsent_bytes=1000)
    for at in (PROBE_S, 2 * IDLE_S):
        front.at = at
        front.foyer.tick(at)
    assert front.told[1:] == ["a is gone: silent for 30.0 s", "a came by 2"]


def test_a_second_process_need_not_wait_where_the_first_has_no_connection_any_more() -> None:
    front = Front()
    front.hello("a", b"1")
    front.cut.add(b"1")
    front.hello("a", b"2", incarnation=2)
    assert front.told == ["a came by 1", "a is gone: its connection is gone", "a came by 2"]


def test_the_goodbye_of_the_first_process_makes_room_for_the_second() -> None:
    front = Front()
    front.hello("a", b"1")
    front.hello("a", b"2", incarnation=2)
    assert front.take(b"1", Goodbye("restarting")) is not None
    front.foyer.leave(b"1", "restarting", 0.0)
    assert front.told == ["a came by 1", "a is gone: it left: restarting", "a came by 2"]
    assert refusals(front.sent) == []


def test_only_the_words_of_those_who_are_here_or_ask_to_be_are_kept() -> None:
    front = Front()
    for number in range(10):
        front.hello("a", str(number).encode())
    for number in range(10, 20):
        front.hello("a", str(number).encode(), incarnation=number)
    assert front.foyer.guests["a"].route == b"9"
    assert front.foyer._asking.keys() == {b"19"}


@pytest.mark.parametrize(("owner", "is_heard"), [(None, True), ("a", True), ("b", False)])
def test_a_connection_speaks_for_the_owner_of_its_key_alone(owner: str | None, is_heard: bool) -> None:
    front = Front()
    front.hello("a", b"1")
    assert (front.take(b"1", Ping(), owner) is not None) == is_heard


def test_who_is_silent_is_gone_unless_something_moves() -> None:
    front = Front()
    for client in ("a", "b"):
        front.hello(client, client.encode())
    front.at = 2 * IDLE_S
    front.counters |= {b"a": quiet(1.0), b"b": quiet(2 * IDLE_S, unsent_bytes=1000)}
    front.foyer.tick(front.at)
    assert list(front.foyer.guests) == ["a"]
    assert front.told[-1] == "b is gone: silent for 30.0 s"


def test_who_leaves_or_is_barred_is_gone() -> None:
    front = Front()
    for client in ("a", "b"):
        front.hello(client, client.encode())
    front.foyer.leave(b"a", "over", 0.0)
    front.foyer.bar(b"b", "revoked", 0.0)
    front.foyer.bar(b"c", "nobody", 0.0)
    assert front.foyer.guests == {}
    assert front.told[2:] == ["a is gone: it left: over", "b is gone: revoked"]
