"""The gatekeeper: says of every key that comes to an encrypted port whether it may connect.

ZeroMQ asks in each handshake, by its own protocol ZAP (RFC 27), once the peer has proven that it holds the secret key.
Without a gatekeeper any key would do. Whoever is let in has its public key with each of its messages.
"""

from __future__ import annotations

from collections.abc import Callable

import zmq

from wire.sockets.endpoint import Context, Endpoint

ADDRESS = "inproc://zeromq.zap.01"
"""Where ZeroMQ asks."""

YES, NO = b"200", b"400"


class Gatekeeper(Endpoint):
    """Answers for all encrypted sockets of a context that listen after it was made."""

    def __init__(self, context: Context, may_enter: Callable[[str, str], bool]) -> None:
        """Begin to answer; `may_enter` is asked about a public key and the address that it comes from."""
        super().__init__(context.socket(zmq.ROUTER))
        self._may_enter = may_enter
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(ADDRESS)
        self._listen()

    def _receive(self) -> None:
        frames = self._socket.recv_multipart(zmq.NOBLOCK)
        body = frames.index(b"") + 1
        version, request, _, address, _, mechanism, *credentials = frames[body:]
        key = credentials[0].hex() if mechanism == b"CURVE" else ""
        code = YES if key and self._may_enter(key, address.decode("ascii", "replace")) else NO
        self._send([*frames[:body], version, request, code, b"", key.encode(), b""])
