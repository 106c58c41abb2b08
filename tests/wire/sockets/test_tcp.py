"""What the kernel says of a TCP connection."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator

import pytest

from wire.sockets.tcp import TcpConnection

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what moves on a connection")

Pair = tuple[socket.socket, socket.socket]
Watch = Callable[[int], TcpConnection]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Connect two sockets by TCP."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as near:
        far, _ = listener.accept()
        with far:
            yield near, far


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Return what watches a descriptor until the end of the test."""
    with contextlib.ExitStack() as watched:
        yield lambda descriptor: watched.enter_context(contextlib.closing(TcpConnection(descriptor)))


def test_what_the_other_end_has_taken_in_is_counted(pair: Pair, watch: Watch) -> None:
    near, far = pair
    connection = watch(near.fileno())
    before = connection.counters()
    assert before is not None
    near.sendall(bytes(1000))
    assert len(far.recv(1000, socket.MSG_WAITALL)) == 1000
    after = connection.counters()
    assert after is not None
    assert after.acked_bytes - before.acked_bytes == 1000
    assert after.unsent_bytes == 0


def test_what_the_other_end_does_not_take_waits(pair: Pair, watch: Watch) -> None:
    near, far = pair
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    near.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while near.send(bytes(100_000)):
            pass
    counters = watch(near.fileno()).counters()
    assert counters is not None
    assert counters.unsent_bytes > 0


def test_quiet_is_the_time_since_anything_came_in(pair: Pair, watch: Watch) -> None:
    near, far = pair
    connection = watch(near.fileno())
    far.sendall(b"x")
    near.recv(1)
    counters = connection.counters()
    assert counters is not None
    assert 0.0 <= counters.quiet_s < 60.0


def test_both_ends_count_the_same(pair: Pair, watch: Watch) -> None:
    near, far = pair
    ends = watch(near.fileno()), watch(far.fileno())
    near.sendall(bytes(1234))
    far.sendall(bytes(55))
    assert far.recv(1234, socket.MSG_WAITALL)
    assert near.recv(55, socket.MSG_WAITALL)
    first, second = (end.counters() for end in ends)
    assert first is not None
    assert second is not None
    assert (first.sent_bytes, first.received_bytes, first.num_retransmits) == (1234, 55, 0)
    assert (second.sent_bytes, second.received_bytes, second.num_retransmits) == (55, 1234, 0)
    assert min(first.rtt_s, second.rtt_s) > 0.0


def test_a_connection_is_known_after_its_owner_has_closed_it_and_what_it_came_to_for_ever(
    pair: Pair, watch: Watch
) -> None:
    near, far = pair
    connection = watch(near.fileno())
    near.sendall(bytes(10))
    near.close()
    assert far.recv(10, socket.MSG_WAITALL)
    connection.close()
    assert far.recv(1) == b""
    found = connection.counters()
    assert found is not None
    assert found.sent_bytes == 10
    connection.close()
    assert connection.counters() == found


def test_the_other_end_hears_of_the_close_once_nobody_watches_any_more(pair: Pair, watch: Watch) -> None:
    near, far = pair
    far.setblocking(False)
    connection = watch(near.fileno())
    near.close()
    with pytest.raises(BlockingIOError):
        far.recv(1)
    connection.close()
    assert far.recv(1) == b""


def test_of_what_is_no_tcp_connection_nothing_is_said(watch: Watch) -> None:
    near, far = socket.socketpair()
    with near, far, open(os.devnull, "rb") as other:
        for descriptor in (near.fileno(), other.fileno(), 10_000):
            assert watch(descriptor).counters() is None
