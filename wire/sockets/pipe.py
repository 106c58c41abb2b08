"""A daemon and its child process: frames over a socket pair, each end noticing when the other dies.

This is the child's end, which a trainer holds and so loads no event loop. It ends by itself when its daemon does: a
thread waits for the other end of the pair to close, and on Linux the kernel is asked to send a signal too. Messages are
those of `wire.encoding`, in the form of `wire.sockets.stream`.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import threading

from wire.encoding import Frames
from wire.sockets.stream import Inbox, pieces
from wire.tensors import Buffer


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
        self._inbox = Inbox()
        exit_when_closed(fd, 0)
        end_with_parent()

    def receive(self) -> list[Buffer]:
        """Wait for the next message.

        Raises:
            EOFError: the daemon has closed its end.
            wire.sockets.stream.StreamError: what came is no message.
        """
        while (frames := self._inbox.take()) is None:
            count = self._socket.recv_into(self._inbox.room())
            if not count:
                raise EOFError("the daemon closed the pipe")
            self._inbox.filled(count)
        return frames

    def has_message(self, wait_s: float = 0.0) -> bool:
        """Say whether a message waits to be received, or begins to come within so many seconds."""
        return self._inbox.has_more or bool(select.select([self._socket], [], [], wait_s)[0])

    def send(self, frames: Frames) -> None:
        """Send one message, waiting while the daemon is behind."""
        for piece in pieces([frames]):
            self._socket.sendall(piece)


def given_pipe() -> ChildPipe:
    """Return the end that this process was started with: its first two arguments are `--pipe FD`."""
    flag, descriptor = sys.argv[1:3]
    assert flag == "--pipe"
    return ChildPipe(int(descriptor))
