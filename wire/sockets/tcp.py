"""What the kernel knows of a TCP connection: whether anything moves on it, however long one message takes."""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import NamedTuple

# Of Linux's `struct tcp_info` (linux/tcp.h): where these fields begin, and how long they are together.
_LAST_DATA_RECV, _BYTES_ACKED, _NOTSENT_BYTES, _SIZE = 52, 120, 144, 148


class Movement(NamedTuple):
    """How long nothing has come in, what the other end has taken in all, and what waits to go out."""

    quiet_s: float
    acked_bytes: int
    unsent_bytes: int


class TcpConnection:
    """A connection that somebody else owns, by its descriptor; that may be closed and given to another at any time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._inode = self._current_inode()

    def movement(self) -> Movement | None:
        """Return what moves, None if the connection is closed or the system does not say."""
        if sys.platform != "linux" or self._inode is None or self._current_inode() != self._inode:
            return None
        try:
            borrowed = socket.socket(fileno=self._descriptor)
            try:
                info = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
            finally:
                borrowed.detach()
        except OSError:
            return None
        return _read(info) if len(info) == _SIZE else None

    def _current_inode(self) -> int | None:
        try:
            return os.fstat(self._descriptor).st_ino
        except OSError:
            return None


def _read(info: bytes) -> Movement:
    (quiet_ms,) = struct.unpack_from("=I", info, _LAST_DATA_RECV)
    (acked_bytes,) = struct.unpack_from("=Q", info, _BYTES_ACKED)
    (unsent_bytes,) = struct.unpack_from("=I", info, _NOTSENT_BYTES)
    return Movement(quiet_ms / 1000, acked_bytes, unsent_bytes)
