"""A peer that speaks the protocol message by message, and any other bytes, as a test wants it."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TypeVar

import zmq

from wire.encoding import Packed, decode, encode, pack
from wire.messages import Hello, Message, Ready, Welcome
from wire.payload import Record
from wire.sockets.keys import KeyPair
from wire.tensors import Buffer
from wire.version import PROTOCOL_VERSION

WAIT_S = 10.0

MessageT = TypeVar("MessageT", bound=Message)


class RawClient:
    """One connection to a coordinator, for as long as it is entered."""

    def __init__(self, address: str, client: str, own: KeyPair | None = None, server_key: str = "") -> None:
        self.client = client
        self.run = 0
        self.passed: list[Message] = []
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.RCVTIMEO, round(WAIT_S * 1000))
        if own is not None:
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, bytes.fromhex(server_key))
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, bytes.fromhex(own.public))
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(own.secret))
        self._socket.connect(f"tcp://{address}")

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._context.destroy(linger=0)

    def send(self, message: Message, payload: Record | None = None) -> None:
        """Send a message."""
        packed: Packed | None = pack(payload.to_payload("f32")) if payload is not None else None
        self.send_frames(encode(message, packed))

    def send_frames(self, frames: Sequence[Buffer]) -> None:
        """Send whatever this is."""
        self._socket.send_multipart(frames)

    def expect(self, kind: type[MessageT]) -> MessageT:
        """Return the next message of this kind, passing over others; fails if it does not come in time."""
        while True:
            message, _ = decode(self._socket.recv_multipart())
            if isinstance(message, kind):
                return message
            self.passed.append(message)

    def hello(self, major: int = PROTOCOL_VERSION.major) -> None:
        """Ask to take part."""
        self.send(Hello((major, 0), self.client, 1))

    def join(self, class_counts: Sequence[int], feature_dim: int) -> Welcome:
        """Take part with so many samples of each class."""
        self.hello()
        welcome = self.expect(Welcome)
        self.run = welcome.run
        counts = list(class_counts)
        self.send(Ready(self.run, sum(counts), 0, counts, feature_dim, 0, 0))
        return welcome
