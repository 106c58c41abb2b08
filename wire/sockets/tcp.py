"""What the kernel knows of a TCP connection: what has gone each way, and whether anything moves, however slowly."""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import NamedTuple

# Of Linux's `struct tcp_info` (linux/tcp.h): where these fields begin.
_LAST_DATA_RECV, _RTT, _TOTAL_RETRANS, _BYTES_ACKED, _BYTES_RECEIVED, _NOTSENT_BYTES = 52, 68, 100, 120, 128, 144
_BYTES_SENT, _BYTES_RETRANS = 200, 208
_OLD_SIZE, _SIZE = 148, 216
"""All fields up to `notsent_bytes` come with Linux 4.6, all up to `bytes_retrans` with 4.19."""


class Counters(NamedTuple):
    """What a connection has come to.

    Attributes:
        sent_bytes: handed to the network, each byte once; before Linux 4.19 what the other end has acknowledged.
        received_bytes: come in, each byte once.
        num_retransmits: segments that were sent more than once.
        rtt_s: the smoothed round-trip time.
        acked_bytes: taken in by the other end.
        unsent_bytes: waiting to go out.
        quiet_s: the time since anything came in.
    """

    sent_bytes: int
    received_bytes: int
    num_retransmits: int
    rtt_s: float
    acked_bytes: int
    unsent_bytes: int
    quiet_s: float


class TcpConnection:
    """A connection that somebody else owns, watched through a descriptor of its own until `close`.

    While it is watched the other end does not hear that the owner has closed it.
    """

    def __init__(self, descriptor: int) -> None:
        """Begin to watch; of what is no TCP connection nothing will be known."""
        self._socket = _borrowed(descriptor) if sys.platform == "linux" else None
        self._last: Counters | None = None

    def counters(self) -> Counters | None:
        """Return what the kernel says now or said at `close`, None if it does not say."""
        if self._socket is not None:
            self._last = _read(self._socket) or self._last
        return self._last

    def close(self) -> None:
        """Look once more and let go; a second call does nothing."""
        self.counters()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _borrowed(descriptor: int) -> socket.socket | None:
    """Return a socket of one's own for a connection, None if the descriptor is closed or something else by now."""
    try:
        own = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        return None
    try:
        own.getpeername()
        if own.family in (socket.AF_INET, socket.AF_INET6):
            return own
    except OSError:
        pass
    own.close()
    return None


def _read(connection: socket.socket) -> Counters | None:
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
    except OSError:
        return None
    if len(info) < _OLD_SIZE:
        return None
    acked_bytes = _number("Q", info, _BYTES_ACKED)
    is_new = len(info) == _SIZE
    return Counters(
        sent_bytes=_number("Q", info, _BYTES_SENT) - _number("Q", info, _BYTES_RETRANS) if is_new else acked_bytes,
        received_bytes=_number("Q", info, _BYTES_RECEIVED),
        num_retransmits=_number("I", info, _TOTAL_RETRANS),
        rtt_s=_number("I", info, _RTT) / 1e6,
        acked_bytes=acked_bytes,
        unsent_bytes=_number("I", info, _NOTSENT_BYTES),
        quiet_s=_number("I", info, _LAST_DATA_RECV) / 1e3,
    )


def _number(form: str, info: bytes, at: int) -> int:
    (number,) = struct.unpack_from(f"={form}", info, at)
    return int(number)
