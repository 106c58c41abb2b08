"""What is seen of a long message on a connection, and that heartbeats are none."""

from __future__ import annotations

import pytest

from coordinator.clients.movement import MOVING_BYTES, Movement
from wire.encoding import encode
from wire.framing import framed_bytes
from wire.messages import Ping, Pong, Vitals
from wire.sockets.tcp import Counters


def counted(received: int, acked: int) -> Counters:
    return Counters(acked, received, num_retransmits=0, rtt_s=0.01, acked_bytes=acked, unsent_bytes=0, quiet_s=0.0)


@pytest.mark.parametrize(("up", "down"), [(MOVING_BYTES, 0), (0, MOVING_BYTES)])
def test_a_message_in_either_direction_moves_from_the_second_look_on(up: int, down: int) -> None:
    counters = {b"1": counted(10**6, 10**6), b"2": counted(0, 0)}
    movement, routes = Movement(counters.get), {"ann": b"1", "bob": b"2"}
    assert movement.look(routes) == []
    counters[b"1"] = counted(10**6 + up, 10**6 + down)
    assert movement.look(routes) == ["ann"]
    assert movement.look(routes) == []


def test_a_heartbeat_and_its_answer_are_no_movement() -> None:
    vitals = Vitals(2**50, 2**50, 2**50, 2**50, 1.8e9)
    ping = framed_bytes(encode(Ping(2**40, 2**40, "w" * 200, vitals)), is_encrypted=True)
    counters = {b"1": counted(0, 0)}
    movement = Movement(counters.get)
    movement.look({"ann": b"1"})
    counters[b"1"] = counted(2 * ping, 2 * framed_bytes(encode(Pong()), is_encrypted=True))
    assert movement.look({"ann": b"1"}) == []


def test_a_new_connection_and_one_that_nothing_is_known_of_have_not_moved() -> None:
    counters = {b"1": counted(0, 0)}
    movement = Movement(counters.get)
    movement.look({"ann": b"1"})
    counters[b"2"] = counted(10**6, 10**6)
    assert movement.look({"ann": b"2"}) == []
    del counters[b"2"]
    assert movement.look({"ann": b"2"}) == []
    assert movement.look({}) == []
