"""ZeroMQ on asyncio: a ROUTER for the coordinator, a DEALER for a client, both by callbacks.

ZeroMQ's descriptor is edge-triggered: it wakes the loop once for any number of messages, and a send may eat the
wake-up of a receive. So every wake-up receives until nothing is left, and every send looks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import zmq
from zmq.utils.monitor import parse_monitor_message

Context = zmq.Context[zmq.Socket[bytes]]
"""One per process; its sockets are closed before it."""

Frames = Sequence[bytes | memoryview]

LINGER_MS = 500
"""How long a closing socket may still deliver what was sent last."""

MAX_BURST = 256
"""Messages received in one go before the loop may do something else."""

# As plain numbers: operations on pyzmq's enumerations cost more than the calls that they are for.
_MORE, _LAST = int(zmq.NOBLOCK | zmq.SNDMORE), int(zmq.NOBLOCK)
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)


def libzmq_version() -> tuple[int, int, int]:
    """Return the version of the library below."""
    return zmq.zmq_version_info()


def has_curve() -> bool:
    """Say whether the library below can encrypt."""
    return bool(zmq.has("curve"))


class AddressInUseError(Exception):
    """The address cannot be bound; the text names it and why."""


class _Endpoint:
    """A socket whose messages arrive by callback on the running event loop."""

    def __init__(self, context: Context, kind: int, max_message_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = context.socket(kind)
        self._socket.setsockopt(zmq.LINGER, LINGER_MS)
        self._socket.setsockopt(zmq.MAXMSGSIZE, max_message_bytes)
        self._scheduled = False
        self.closed = False

    def _listen(self) -> None:
        self._loop.add_reader(self._socket.FD, self._drain)
        self._look_again()

    def close(self) -> None:
        """Close now; what was sent last is still delivered for LINGER_MS."""
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
            frames = self._socket.recv_multipart(zmq.NOBLOCK)
            try:
                self._arrived(frames)
            except Exception:
                self._look_again()  # there may be more, and nothing else would say so
                raise
        self._look_again()

    def _arrived(self, frames: list[bytes]) -> None:
        raise AssertionError("an endpoint must say what it does with a message")

    def _send(self, frames: Frames) -> None:
        """Send without blocking; raises zmq.ZMQError where the peer is gone or its queue full."""
        for frame in frames[:-1]:
            self._socket.send(frame, _MORE)
        self._socket.send(frames[-1], _LAST)
        if self._has_message():
            self._look_again()

    def _has_message(self) -> bool:
        return bool(int(self._socket.getsockopt(_EVENTS)) & _POLLIN)


class Router(_Endpoint):
    """The coordinator's end: many connections, each known by the route that libzmq gave it."""

    def __init__(
        self,
        context: Context,
        address: str,
        max_message_bytes: int,
        on_message: Callable[[bytes, list[bytes]], None],
    ) -> None:
        """Bind `host:port` (port 0: any free one) and listen.

        Raises:
            AddressInUseError: the address cannot be bound.
        """
        super().__init__(context, zmq.ROUTER, max_message_bytes)
        self._on_message = on_message
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        host, _, port = address.rpartition(":")
        self._socket.setsockopt(zmq.IPV6, int("[" in host))
        try:
            self._socket.bind(f"tcp://{host}:{'*' if port == '0' else port}")
        except zmq.ZMQError as error:
            self._socket.close(0)
            raise AddressInUseError(f"cannot listen on {address}: {error.strerror or error}") from None
        bound = self._socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        self.address = bound.decode().rstrip("\0").removeprefix("tcp://")
        self._listen()

    def send(self, route: bytes, frames: Frames) -> bool:
        """Send to one connection; False if it is gone or takes nothing more."""
        try:
            self._send([route, *frames])
        except zmq.ZMQError:
            return False
        return True

    def _arrived(self, frames: list[bytes]) -> None:
        self._on_message(frames[0], frames[1:])


class Dealer(_Endpoint):
    """A client's end: one connection, made once. A lost one is reported, and it is for the caller to make another."""

    def __init__(
        self,
        context: Context,
        address: str,
        max_message_bytes: int,
        on_message: Callable[[list[bytes]], None],
        on_lost: Callable[[str], None],
    ) -> None:
        super().__init__(context, zmq.DEALER, max_message_bytes)
        self._on_message = on_message
        self._on_lost = on_lost
        self._socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self._socket.setsockopt(zmq.SNDHWM, 16)
        lost = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED | zmq.EVENT_CONNECT_RETRIED
        self._monitor = self._socket.get_monitor_socket(lost | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        self._loop.add_reader(self._monitor.FD, self._drain_monitor)
        self._socket.setsockopt(zmq.IPV6, int("[" in address))
        self._socket.connect(f"tcp://{address}")
        self._listen()
        self._loop.call_soon(self._drain_monitor)

    def send(self, frames: Frames) -> bool:
        """Queue for the coordinator; False if the queue is full."""
        try:
            self._send(frames)
        except zmq.ZMQError:
            return False
        return True

    def close(self) -> None:
        """Close now; what was sent last is still delivered for LINGER_MS."""
        if not self.closed:
            self._loop.remove_reader(self._monitor.FD)
            self._socket.disable_monitor()
            self._monitor.close(0)
        super().close()

    def _drain_monitor(self) -> None:
        while not self.closed:
            try:
                event = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                return
            if event["event"] != zmq.EVENT_CONNECT_RETRIED:
                self._on_lost("the connection to the coordinator is gone")

    def _arrived(self, frames: list[bytes]) -> None:
        self._on_message(frames)
