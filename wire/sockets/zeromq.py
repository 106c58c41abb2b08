"""ZeroMQ on asyncio: a ROUTER for the coordinator, a DEALER for a client, both by callbacks.

With keys a connection is encrypted by CURVE, and each end has proven that it holds its secret key before any message
arrives. Why a handshake failed is told by ZeroMQ's monitor; see `gatekeeper` for who is let in.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from enum import Enum

import zmq

from wire.framing import MAX_ADDED_BYTES
from wire.limits import MAX_PARTS
from wire.sockets.endpoint import Context, Endpoint, Monitor, Parts, Socket
from wire.sockets.keys import KeyPair
from wire.sockets.tcp import Counters, TcpConnection

LINGER_MS = 500
"""How long a closing socket may still deliver what was sent last."""

HANDSHAKE_MS = 25_000
"""How long a peer that has connected may take to become one that can speak.

Longer than a client waits itself: it shall not take a coordinator that is slow for one that breaks off.
"""

CURVE_MARGIN_BYTES = 64
"""More than encryption adds to a part: what ZeroMQ takes for the size of a part includes it."""

LATE_ROUTES = 256
"""Of so many connections it is remembered that they have ended: messages of theirs may still come."""

ANYONE = ""
"""The key of a peer whose connection is not encrypted."""

_FAILURES = int(
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_MISMATCH = int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
_CRYPTOGRAPHIC = int(zmq.PROTOCOL_ERROR_ZMTP_CRYPTOGRAPHIC)


def libzmq_version() -> tuple[int, int, int]:
    """Return the version of the library below."""
    return zmq.zmq_version_info()


def has_curve() -> bool:
    """Say whether the library below can encrypt."""
    return bool(zmq.has("curve"))


class AddressInUseError(Exception):
    """The address cannot be bound; the text names it and why."""


class LinkEnd(Enum):
    """Why a client has no connection."""

    GONE = "it ended, or could not be made"
    BROKEN_OFF = "the other end broke off the handshake without a word, as one does that has other keys"
    REFUSED = "the other end will not have it, however often it is tried"


class Router(Endpoint):
    """The coordinator's end: many connections, each known by the route that libzmq gave it."""

    def __init__(
        self,
        context: Context,
        address: str,
        max_message_bytes: int,
        on_message: Callable[[bytes, str, Parts], None],
        on_failed: Callable[[str, str], None],
        on_ended: Callable[[bytes, Counters | None], None],
        own: KeyPair | None = None,
    ) -> None:
        """Bind `host:port` (port 0: any free one) and listen.

        Args:
            context: the process's own.
            address: where to listen.
            max_message_bytes: a larger part ends its connection, and so do more parts than a message has.
            on_message: takes route, the peer's public key (`ANYONE` without keys) and parts of a message.
            on_failed: hears of each handshake that failed: what kind of failure it is, and in words.
            on_ended: hears of each route that is no more, and what the kernel counted on its connection.
            own: the keys; None for connections that are not encrypted.

        Raises:
            AddressInUseError: the address cannot be bound.
        """
        super().__init__(_socket(context, zmq.ROUTER, max_message_bytes, own is not None))
        self._on_message = on_message
        self._on_failed = on_failed
        self._on_ended = on_ended
        self._is_encrypted = own is not None
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
        if own is not None:
            self._socket.setsockopt(zmq.CURVE_SERVER, 1)
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(own.secret))
            self._socket.setsockopt(zmq.ZAP_DOMAIN, b"coordinator")
        self.address = self._bind(address)
        self._connections: dict[bytes, TcpConnection] = {}
        self._routes: dict[int, bytes] = {}
        self._ended: deque[bytes] = deque(maxlen=LATE_ROUTES)
        self._monitor = Monitor(context, self._socket, _FAILURES | int(zmq.EVENT_DISCONNECTED), self._on_event)
        self._listen()

    def counters(self, route: bytes) -> Counters | None:
        """Return what the kernel has counted on a connection, None if it is gone or the system does not say."""
        connection = self._connections.get(route)
        return connection.counters() if connection is not None else None

    def has(self, route: bytes) -> bool:
        """Say whether a connection is known and has not ended."""
        return route in self._connections

    def send(self, route: bytes, parts: Parts) -> bool:
        """Send to one connection; False if it is gone or takes nothing more."""
        try:
            self._send([route, *parts])
        except zmq.ZMQError:
            return False
        return True

    def close(self) -> None:
        """Close now; what was sent last is still delivered for LINGER_MS."""
        self._monitor.close()
        for connection in self._connections.values():
            connection.close()
        super().close()

    def _bind(self, address: str) -> str:
        host, _, port = address.rpartition(":")
        self._socket.setsockopt(zmq.IPV6, int("[" in host))
        try:
            self._socket.bind(f"tcp://{host}:{'*' if port == '0' else port}")
        except zmq.ZMQError as error:
            self._socket.close(0)
            raise AddressInUseError(f"cannot listen on {address}: {error.strerror or error}") from None
        bound = self._socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(bound, bytes)
        return bound.decode().rstrip("\0").removeprefix("tcp://")

    def _receive(self) -> None:
        first = self._socket.recv(zmq.NOBLOCK, copy=False)
        route, parts = first.bytes, self._parts()
        if route not in self._connections and route not in self._ended:
            self._look_at(route, first)
        if len(parts) > MAX_PARTS and route in self._connections:
            self._connections[route].cut()
        self._on_message(route, str(first.get("User-Id")) if self._is_encrypted else ANYONE, parts)

    def _look_at(self, route: bytes, first: zmq.Frame) -> None:
        """Know the connection of a route by its descriptor; a peer of an old ZMTP has none that ZeroMQ would tell.

        An older connection had the same descriptor until it ended, so ends are heard of first.
        """
        with contextlib.suppress(zmq.ZMQError):
            descriptor = int(first.get(zmq.SRCFD))
            self._monitor.catch_up()
            self._end(descriptor)
            self._connections[route] = TcpConnection(descriptor)
            self._routes[descriptor] = route

    def _end(self, descriptor: int) -> None:
        """Let go of the connection that had this descriptor, if it is known."""
        route = self._routes.pop(descriptor, None)
        if route is not None:
            connection = self._connections.pop(route)
            connection.close()
            self._ended.append(route)
            self._on_ended(route, connection.counters())

    def _on_event(self, event: int, value: int) -> None:
        if event == zmq.EVENT_DISCONNECTED:
            self._end(value)
            return
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return  # the gatekeeper has told
        if event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            left = "a peer left before its handshake was done, as `edge-client doctor` and port scans do"
            self._on_failed("unfinished", f"{left}, or took over {HANDSHAKE_MS / 1000:g} s")
        elif value == _MISMATCH:
            theirs = "does not encrypt" if self._is_encrypted else "encrypts"
            self._on_failed("plaintext" if self._is_encrypted else "encrypted", f"a peer {theirs}, unlike this port")
        elif value == _CRYPTOGRAPHIC:
            self._on_failed("server_key", "a peer expects another coordinator: its public_key is not ours")
        else:
            self._on_failed("handshake", f"a peer sent what is no handshake (ZMTP error 0x{value:x})")


class Dealer(Endpoint):
    """A client's end: one connection, made once. A lost one is reported, and it is for the caller to make another."""

    def __init__(
        self,
        context: Context,
        address: str,
        max_message_bytes: int,
        on_message: Callable[[Parts], None],
        on_lost: Callable[[str, LinkEnd], None],
        own: KeyPair | None = None,
        server_key: str = "",
    ) -> None:
        """Begin to connect; with keys only to the coordinator whose public key is `server_key`."""
        super().__init__(_socket(context, zmq.DEALER, max_message_bytes, own is not None))
        self._on_message = on_message
        self._on_lost = on_lost
        self._is_encrypted = own is not None
        self._is_lost = False
        self._socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self._socket.setsockopt(zmq.SNDHWM, 16)
        if own is not None:
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, bytes.fromhex(server_key))
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, bytes.fromhex(own.public))
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(own.secret))
        self._connection: TcpConnection | None = None
        self._acked_bytes = 0
        told = int(zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED) | _FAILURES
        self._monitor = Monitor(context, self._socket, told, self._on_event)
        self._socket.setsockopt(zmq.IPV6, int("[" in address))
        self._socket.connect(f"tcp://{address}")
        self._listen()

    def quiet_s(self) -> float | None:
        """Return for how long nothing has moved on the connection, None if that is unknown.

        Parts of a message that come in are movement, and parts of one that is too large to go out at once.
        """
        counters = self.counters()
        if counters is None or self._is_lost:
            return None
        is_sending = counters.unsent_bytes > 0 and counters.acked_bytes > self._acked_bytes
        self._acked_bytes = counters.acked_bytes
        return 0.0 if is_sending else counters.quiet_s

    def counters(self) -> Counters | None:
        """Return what the kernel has counted on the connection, also after its end; None if it does not say."""
        return self._connection.counters() if self._connection is not None else None

    def send(self, parts: Parts, may_lapse: bool = False) -> None:
        """Queue for the coordinator; a connection whose queue is full is lost.

        What `may_lapse` is left out where something before it has yet to go out: it would come too late to tell much.
        """
        if may_lapse and self._is_behind():
            return
        try:
            self._send(parts)
        except zmq.ZMQError:
            if not may_lapse:
                self._loop.call_soon(self._on_full)

    def close(self) -> None:
        """Close now; what was sent last is still delivered for LINGER_MS."""
        self._monitor.close()
        self._let_go()
        super().close()

    def _is_behind(self) -> bool:
        counters = self.counters()
        return counters is not None and counters.unsent_bytes > 0

    def _on_full(self) -> None:
        self._monitor.catch_up()  # a connection that has ended takes nothing either
        if not self.closed:
            self._lose("the queue of what is yet to be sent is full", LinkEnd.GONE)

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _on_event(self, event: int, value: int) -> None:
        if event == zmq.EVENT_CONNECTED:
            self._connection = TcpConnection(value)
        else:
            self._lose(*self._link_end(event, value))

    def _lose(self, reason: str, end: LinkEnd) -> None:
        """Report the first loss alone: the others follow from it."""
        self._let_go()
        if not self._is_lost:
            self._is_lost = True
            self._on_lost(reason, end)

    def _link_end(self, event: int, value: int) -> tuple[str, LinkEnd]:
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return "this device's key is not enrolled there, was revoked or has expired", LinkEnd.REFUSED
        if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == _MISMATCH:
            return mismatch(self._is_encrypted), LinkEnd.REFUSED
        if event in (zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL, zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL):
            return "the handshake was broken off", LinkEnd.BROKEN_OFF
        if self._connection is None:
            return "nobody takes connections there", LinkEnd.GONE
        return "the connection to the coordinator is gone", LinkEnd.GONE

    def _receive(self) -> None:
        self._on_message(self._parts())


def mismatch(is_encrypted: bool) -> str:
    """Say in words that one end encrypts and the other does not."""
    ours, theirs = ("encrypted", "not") if is_encrypted else ("not encrypted", "encrypted")
    return f"connections are {ours} here and {theirs} there"


def _socket(context: Context, kind: int, max_message_bytes: int, is_encrypted: bool) -> Socket:
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, max_message_bytes + MAX_ADDED_BYTES + (CURVE_MARGIN_BYTES if is_encrypted else 0))
    return socket
