"""What the kernel has counted of each client, over its connections and over restarts."""

from __future__ import annotations

import math
import time

import msgspec
import pytest

from coordinator.metrics.links import LinkCounts, Links, StoredLinks, Way
from wire.messages import Vitals
from wire.sockets.tcp import Counters

LEFT: list[tuple[str, Way]] = [("ann", "down"), ("ann", "up"), ("bob", "down")]
BOBS: tuple[str, Way] = ("bob", "up")


def counted(sent: int, received: int, rtt_s: float = 0.01) -> Counters:
    return Counters(sent, received, num_retransmits=1, rtt_s=rtt_s, acked_bytes=sent, unsent_bytes=0, quiet_s=0.0)


class Door:
    """Connections by route, as the kernel counts them, and the links that are made of them."""

    def __init__(self, stored: StoredLinks | None = None) -> None:
        self.counters: dict[bytes, Counters] = {}
        self.links = Links(stored or StoredLinks(), self.counters.get)

    def join(self, client: str, route: bytes, sent: int, received: int) -> None:
        self.counters[route] = counted(sent, received)
        self.links.joined(client, route)

    def end(self, route: bytes, sent: int, received: int) -> None:
        del self.counters[route]
        self.links.ended(route, counted(sent, received))

    def bytes_of(self, client: str) -> tuple[int, int]:
        link = self.links.link(client)
        assert link is not None
        return link.up_bytes, link.down_bytes


def test_dead_connections_and_live_ones_are_added_up() -> None:
    door = Door()
    door.join("ann", b"1", 100, 10)
    door.end(b"1", 150, 15)
    door.join("ann", b"2", 1000, 100)
    door.join("bob", b"3", 7, 5)
    assert door.bytes_of("ann") == (115, 1150)
    assert door.bytes_of("bob") == (5, 7)
    link = door.links.all()["ann"]
    assert (link.num_connections, link.num_retransmits, link.rtt_s) == (2, 2, 0.01)
    door.counters[b"2"] = counted(1001, 100)
    assert door.bytes_of("ann") == (115, 1151)


def test_a_connection_counts_for_its_first_client_alone_and_strangers_for_nobody() -> None:
    door = Door()
    door.join("ann", b"1", 100, 10)
    door.links.joined("bob", b"1")
    door.links.ended(b"9", counted(5, 5))
    assert list(door.links.all()) == ["ann"]
    assert door.links.link("bob") is None


def test_where_the_kernel_does_not_say_there_is_no_link() -> None:
    links = Links(StoredLinks(), lambda route: None)
    links.joined("ann", b"1")
    links.passed("ann", "up", 10)
    links.passed("ann", "down", 20)
    assert links.link("ann") is None
    assert links.at_leaving() == StoredLinks()
    assert links.all() == {}


@pytest.mark.parametrize(
    ("counted", "computed"), [([], 30), ([("ann", "down")], 10), ([("ann", "down"), ("ann", "up")], 0)]
)
def test_after_a_restart_counts_go_on_from_what_is_stored(counted: list[tuple[str, Way]], computed: int) -> None:
    """What a kill left uncounted is computed; a process that left in order had counted it."""
    door = Door(StoredLinks({"ann": LinkCounts(1000, 2000, num_connections=1)}, counted))
    door.links.passed("ann", "down", 20)
    door.links.passed("ann", "up", 10)
    door.join("ann", b"1", 100, 50)
    link = door.links.all()["ann"]
    assert link.computed_bytes == computed
    assert link.up_bytes + link.down_bytes == 3000 + 150 + computed


def test_what_came_between_a_process_that_left_in_order_and_a_kill_is_computed() -> None:
    """Ann had answered when the first process left; bob, who was asked then, answered the second, which was killed."""
    first = Door()
    for client, route in (("ann", b"1"), ("bob", b"2")):
        first.join(client, route, 100, 50)
    first.links.exchange_opened()
    for client, way in LEFT:
        first.links.passed(client, way, None)
    left = first.links.at_leaving()
    assert left.counted == LEFT
    killed, third = Door(left), Door(left)
    for door in (killed, third):
        for client, way in [*LEFT, BOBS]:
            door.links.passed(client, way, 10)
    assert [link.computed_bytes for link in third.links.all().values()] == [0, 10]
    assert killed.links.at_leaving().counted == [*LEFT, BOBS]
    killed.links.exchange_opened()
    assert killed.links.at_leaving().counted == []


def test_what_a_client_says_is_compared_with_what_was_counted_then() -> None:
    door = Door()
    door.join("ann", b"1", 500, 1000)
    door.links.told("ann", Vitals(900, 480, 2, clock_s=time.time() - 60), 93)
    link = door.links.all()["ann"]
    assert (link.own_up_bytes, link.own_down_bytes, link.own_num_retransmits) == (993, 480, 2)
    assert (link.up_difference_bytes, link.down_difference_bytes) == (7, 20)
    assert link.clock_skew_s == pytest.approx(-60, abs=10)
    door.counters[b"1"] = counted(520, 1100)
    door.links.told("ann", Vitals(1000, 520, 2), 100)
    link = door.links.all()["ann"]
    assert (link.own_up_bytes, link.up_difference_bytes, link.down_difference_bytes) == (1100, 0, 0)
    assert link.clock_skew_s == pytest.approx(-60, abs=10)


def test_a_smaller_count_is_that_of_a_new_process() -> None:
    door = Door()
    door.join("ann", b"1", 500, 1000)
    door.links.told("ann", Vitals(900, 500), 100)
    door.join("ann", b"2", 50, 100)
    door.links.told("ann", Vitals(60, 50), 40)
    link = door.links.all()["ann"]
    assert (link.own_up_bytes, link.own_down_bytes) == (1100, 550)
    assert (link.up_difference_bytes, link.down_difference_bytes) == (0, 0)


@pytest.mark.parametrize(
    "word", [Vitals(), Vitals(-5, 3), Vitals(5, -3), Vitals(2**54, 3), Vitals(5, 3, clock_s=math.nan)]
)
def test_what_cannot_be_is_not_taken(word: Vitals) -> None:
    door = Door()
    door.join("ann", b"1", 500, 1000)
    door.links.told("ann", word, 10)
    assert door.links.all()["ann"].own_up_bytes is None


def test_however_often_a_client_begins_anew_its_counts_stay_such_that_they_can_be_stored() -> None:
    door = Door()
    door.join("ann", b"1", 500, 1000)
    for _ in range(5000):
        door.links.told("ann", Vitals(2**53 - 100, 2**53), 10)
        door.links.told("ann", Vitals(1), 10)
    assert msgspec.json.decode(msgspec.json.encode(door.links.all()))["ann"]["own_up_bytes"] == 2**53
