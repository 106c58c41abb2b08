"""A ZeroMQ socket on a running event loop: its messages, and what happens to its connections, arrive by callback.

ZeroMQ's descriptor is edge-triggered: it wakes the loop once for any number of messages, and a send may eat the
wake-up of a receive. So every wake-up receives until nothing is left, and every send looks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import zmq
from zmq.utils.monitor import parse_monitor_message

from wire.limits import MAX_PARTS
from wire.tensors import Buffer

Context = zmq.Context[zmq.Socket[bytes]]
"""One per process; its sockets are closed before it."""

Socket = zmq.Socket[bytes]
Parts = Sequence[Buffer]
"""What ZeroMQ calls the frames of a message; see `wire.framing`."""

MAX_BURST = 256
"""Messages received in one go before the loop may do something else."""

# As plain numbers: operations on pyzmq's enumerations cost more than the calls that they are for.
_MORE, _LAST = int(zmq.NOBLOCK | zmq.SNDMORE), int(zmq.NOBLOCK)
_EVENTS, _POLLIN, _RCVMORE = int(zmq.EVENTS), int(zmq.POLLIN), int(zmq.RCVMORE)


class Endpoint:
    """A socket whose messages arrive by callback on the running event loop."""

    def __init__(self, socket: Socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = socket
        self._scheduled = False
        self.closed = False

    def _listen(self) -> None:
        self._loop.add_reader(self._socket.FD, self._drain)
        self._look_again()

    def close(self) -> None:
        """Close now; what was sent last is still delivered for as long as the socket lingers."""
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._socket.FD)
            self._socket.close()

    def _look_again(self) -> None:
        if not self._scheduled and not self.closed:
            self._scheduled = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        for _ in range(MAX_BURST):
            if self.closed or not self._has_message():
                return
            try:
                self._receive()
            except Exception:
                self._look_again()  # there may be more, and nothing else would say so
                raise
        self._look_again()

    def _receive(self) -> None:
        raise AssertionError("an endpoint must say what it does with a message")

    def _parts(self) -> list[Buffer]:
        """Receive a message: its first part, mostly the only one, copied out, and the others where they came to lie.

        Of too many parts only so many are kept that they are seen to be too many.
        """
        parts: list[Buffer] = [self._socket.recv(zmq.NOBLOCK)]
        while self._socket.getsockopt(_RCVMORE):
            part = self._socket.recv(zmq.NOBLOCK, copy=False)
            if len(parts) <= MAX_PARTS:
                parts.append(part.buffer)
        return parts

    def _send(self, parts: Parts) -> None:
        """Send without blocking; raises zmq.ZMQError where the peer is gone or its queue full.

        Large parts wait where they are, so that one which goes to many is in memory once: they must not change.
        A peer that goes while they are handed over gets none of them.
        """
        for part in parts[:-1]:
            self._socket.send(part, _MORE, copy=False)
        self._socket.send(parts[-1], _LAST, copy=False)
        if self._has_message():
            self._look_again()

    def _has_message(self) -> bool:
        return bool(int(self._socket.getsockopt(_EVENTS)) & _POLLIN)


class Monitor(Endpoint):
    """What happens to the connections of a socket, until it is closed, which comes before that socket's own end."""

    def __init__(self, context: Context, watched: Socket, events: int, on_event: Callable[[int, int], None]) -> None:
        super().__init__(context.socket(zmq.PAIR))
        self._watched = watched
        self._on_event = on_event
        address = f"inproc://monitor-{watched.FD}"
        self._socket.setsockopt(zmq.RCVHWM, 0)  # a full queue would hold up ZeroMQ's own thread
        watched.monitor(address, events)
        self._socket.connect(address)
        self._listen()

    def close(self) -> None:
        """Watch no more."""
        if not self.closed:
            self._watched.monitor(None, 0)
            self._socket.setsockopt(zmq.LINGER, 0)
        super().close()

    def catch_up(self) -> None:
        """Tell of all that has happened by now."""
        while not self.closed and self._has_message():
            self._receive()

    def _receive(self) -> None:
        event: dict[str, Any] = dict(parse_monitor_message(self._socket.recv_multipart(zmq.NOBLOCK)))
        self._on_event(int(event["event"]), int(event["value"]))
