"""A daemon and its child process: frames over a socket pair, each end noticing when the other dies.

This is the child's end, which a trainer holds and so loads no event loop. It ends by itself when its daemon does: a
thread waits for the other end of the pair to close, and on Linux the kernel is asked to send a signal too. Messages are
those of `wire.encoding`; on the pair each is a count of frames, their lengths, then their bytes.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Sequence

Frames = Sequence[bytes | memoryview]

MAX_FRAMES = 3
"""A message is a header and at most one buffer, an update may have its timing behind it."""

NUMBER = struct.Struct("<I")


def end_with_parent() -> None:
    """Ask the kernel to end this process when its parent ends; a no-op where there is no such service."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def exit_when_closed(fd: int, code: int) -> None:
    """End this process at once, from a thread, when the other end of `fd` closes."""

    def watch() -> None:
        poller = select.poll()
        poller.register(fd, select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0))
        poller.poll()
        os._exit(code)

    threading.Thread(target=watch, name="pipe-watch", daemon=True).start()


class ChildPipe:
    """The child's end: blocking, one message at a time."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(True)
        exit_when_closed(fd, 0)
        end_with_parent()

    def receive(self) -> list[bytes]:
        """Wait for the next message; raises EOFError when the daemon has closed its end."""
        (count,) = NUMBER.unpack(self._read(NUMBER.size))
        if not 1 <= count <= MAX_FRAMES:
            raise EOFError(f"expected 1 to {MAX_FRAMES} frames, got {count}")
        sizes = struct.unpack(f"<{count}I", self._read(count * NUMBER.size))
        return [self._read(size) for size in sizes]

    def has_message(self) -> bool:
        """Say whether a message waits to be received."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def send(self, frames: Frames) -> None:
        """Send one message, waiting while the daemon is behind."""
        self._socket.sendall(b"".join((prefix(frames), *frames)))

    def _read(self, size: int) -> bytes:
        found = bytearray(size)
        view = memoryview(found)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise EOFError("the daemon closed the pipe")
            view = view[count:]
        return bytes(found)


def given_pipe() -> ChildPipe:
    """Return the end that this process was started with: its first two arguments are `--pipe FD`."""
    flag, descriptor = sys.argv[1:3]
    assert flag == "--pipe"
    return ChildPipe(int(descriptor))


def prefix(frames: Frames) -> bytes:
    """Return what stands before a message's frames."""
    return b"".join(NUMBER.pack(number) for number in (len(frames), *(len(frame) for frame in frames)))
