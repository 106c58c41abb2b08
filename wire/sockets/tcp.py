"""What the kernel knows of a TCP connection: what has gone each way, and whether anything moves, however slowly."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
from typing import NamedTuple

_OLD, _ADDED = "52xI12xI28xI16xQQ8xI", "52xQQ"
"""The used fields of Linux's `struct tcp_info` (linux/tcp.h): those up to 4.6, and those that came with 4.19."""

_LAYOUT, _OLD_LAYOUT = struct.Struct(f"={_OLD}{_ADDED}"), struct.Struct(f"={_OLD}")


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

    def cut(self) -> None:
        """End it, both ways, as the network would."""
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it has ended
                self._socket.shutdown(socket.SHUT_RDWR)

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
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAYOUT.size)
    except OSError:
        return None
    if len(info) < _OLD_LAYOUT.size:
        return None
    quiet_ms, rtt_us, num_retransmits, acked_bytes, received_bytes, unsent_bytes = _OLD_LAYOUT.unpack_from(info)
    sent_bytes = acked_bytes
    if len(info) == _LAYOUT.size:
        *_, all_sent_bytes, resent_bytes = _LAYOUT.unpack(info)
        sent_bytes = all_sent_bytes - resent_bytes
    return Counters(
        sent_bytes, received_bytes, num_retransmits, rtt_us / 1e6, acked_bytes, unsent_bytes, quiet_ms / 1e3
    )
