"""What the kernel says of a TCP connection."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator

import pytest

from wire.sockets.tcp import TcpConnection

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what moves on a connection")

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Connect two sockets by TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        with far:
            yield near, far


def test_what_the_other_end_has_taken_in_is_counted(pair: Pair) -> None:
    near, far = pair
    connection = TcpConnection(near.fileno())
    before = connection.movement()
    assert before is not None
    near.sendall(bytes(1000))
    assert len(far.recv(1000, socket.MSG_WAITALL)) == 1000
    after = connection.movement()
    assert after is not None
    assert after.acked_bytes - before.acked_bytes == 1000
    assert after.unsent_bytes == 0


def test_what_the_other_end_does_not_take_waits(pair: Pair) -> None:
    near, far = pair
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    near.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while near.send(bytes(100_000)):
            pass
    movement = TcpConnection(near.fileno()).movement()
    assert movement is not None
    assert movement.unsent_bytes > 0


def test_quiet_is_the_time_since_anything_came_in(pair: Pair) -> None:
    near, far = pair
    connection = TcpConnection(near.fileno())
    far.sendall(b"x")
    near.recv(1)
    movement = connection.movement()
    assert movement is not None
    assert 0.0 <= movement.quiet_s < 60.0


def test_of_another_descriptor_nothing_is_said(pair: Pair) -> None:
    near, _ = pair
    descriptor = os.dup(near.fileno())
    connection = TcpConnection(descriptor)
    assert connection.movement() is not None
    os.close(descriptor)
    assert connection.movement() is None
    with open(os.devnull, "rb") as other:
        assert other.fileno() == descriptor
        assert connection.movement() is None


def test_of_what_is_no_tcp_connection_nothing_is_said() -> None:
    near, far = socket.socketpair()
    with near, far:
        assert TcpConnection(near.fileno()).movement() is None
