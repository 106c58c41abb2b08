"""A daemon and its child process: frames over a socket pair, each end noticing when the other dies.

The child is `python -I -m MODULE --pipe FD ...`, so nothing that lies beside a user's files is imported by accident.
It ends by itself when its daemon does: a thread waits for the other end of the pair to close, and on Linux the kernel
is asked to send a signal too. Messages are those of `wire.encoding`; on the pair each is a count of frames, their
lengths, then their bytes.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

Frames = Sequence[bytes | memoryview]

MAX_FRAMES = 3
"""A message is a header and at most one buffer, an update may have its timing behind it."""

MAX_JOINED_BYTES = 64 * 1024
"""Up to this size a message is written as one piece."""

LAST_LINES = 12
"""Lines of a child's output that are quoted when it died."""

KILL_AFTER_S = 1.0
"""How long a child may take to end after it was asked to."""

_COUNT = struct.Struct("<I")


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
        (count,) = _COUNT.unpack(self._read(_COUNT.size))
        if not 1 <= count <= MAX_FRAMES:
            raise EOFError(f"expected 1 to {MAX_FRAMES} frames, got {count}")
        sizes = struct.unpack(f"<{count}I", self._read(count * _COUNT.size))
        return [self._read(size) for size in sizes]

    def has_message(self) -> bool:
        """Say whether a message waits to be received."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def send(self, frames: Frames) -> None:
        """Send one message, waiting while the daemon is behind."""
        self._socket.sendall(b"".join((_prefix(frames), *frames)))

    def _read(self, size: int) -> bytes:
        found = bytearray(size)
        view = memoryview(found)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise EOFError("the daemon closed the pipe")
            view = view[count:]
        return bytes(found)


class Child(asyncio.Protocol):
    """The daemon's end: starts the child, calls back for each message and when the child is gone."""

    def __init__(self, on_message: Callable[[list[bytes]], None], on_gone: Callable[[str], None], log: Path) -> None:
        self._on_message = on_message
        self._on_gone = on_gone
        self._log = log
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[bytes | memoryview] = []
        self._writable = asyncio.Event()
        self._writable.set()
        self._stopping = False

    async def start(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start `python -I -m module --pipe FD *arguments`; its output goes to the end of the log file."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs, open(self._log, "ab") as log:
            command = [sys.executable, "-I", "-m", module, "--pipe", str(theirs.fileno()), *arguments]
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=ours)

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return self._process.pid if self._process else None

    def send(self, frames: Frames) -> None:
        """Queue one message for the child, also before it has started."""
        for chunk in _chunks(frames):
            self._write(chunk)

    def _write(self, chunk: bytes | memoryview) -> None:
        if self._transport is None:
            self._early.append(chunk)
        elif not self._transport.is_closing() and len(chunk):
            self._transport.write(chunk)

    async def send_all(self, messages: Iterable[Frames]) -> None:
        """Send many messages, small ones together in one write, and wait while the child is behind."""
        together = bytearray()
        for frames in messages:
            together += b"".join(_chunks(frames))
            if len(together) >= MAX_JOINED_BYTES:
                self._write(bytes(together))
                together.clear()
                await self.drain()
        self._write(bytes(together))

    async def drain(self) -> None:
        """Wait until the child has taken most of what was sent."""
        await self._writable.wait()

    async def stop(self) -> None:
        """Close the pipe and see the child end, within KILL_AFTER_S and by force if need be."""
        self._stopping = True
        if self._transport is not None:
            self._transport.abort()
        if self._process is None:
            return
        for _ in range(round(KILL_AFTER_S / 0.02)):
            if self._process.poll() is not None:
                return
            await asyncio.sleep(0.02)
        self._process.kill()
        self._process.wait(KILL_AFTER_S)

    def kill(self) -> None:
        """End the child at once."""
        if self._process is not None:
            self._process.kill()

    def last_lines(self) -> str:
        """Return the last lines of the child's output."""
        try:
            with open(self._log, "rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 8192))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return "\n".join(lines[-LAST_LINES:])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what was queued early (called by asyncio)."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        early, self._early = self._early, []
        transport.write(b"".join(early))

    def pause_writing(self) -> None:
        """Hold `drain` (called by asyncio)."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let `drain` go on (called by asyncio)."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Take in bytes and call back for every whole message (called by asyncio)."""
        self._received += data
        while (frames := self._next_message()) is not None:
            self._on_message(frames)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the child is gone (called by asyncio)."""
        self._writable.set()
        if self._stopping or self._process is None:
            return
        try:
            code = self._process.wait(KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait(KILL_AFTER_S)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._on_gone(f"ended with {how}")

    def _next_message(self) -> list[bytes] | None:
        word, have = _COUNT.size, len(self._received)
        if have < word:
            return None
        (count,) = _COUNT.unpack_from(self._received)
        head = word * (1 + count)
        if have < head:
            return None
        sizes = [_COUNT.unpack_from(self._received, word * (1 + index))[0] for index in range(count)]
        if have < head + sum(sizes):
            return None
        frames, start = [], head
        with memoryview(self._received) as view:
            for size in sizes:
                frames.append(bytes(view[start : start + size]))
                start += size
        del self._received[:start]
        return frames


def _chunks(frames: Frames) -> Frames:
    """Return a message in pieces: one if it is small, as every piece wakes the child, else none is copied."""
    pieces = (_prefix(frames), *frames)
    return [b"".join(pieces)] if sum(map(len, frames)) <= MAX_JOINED_BYTES else pieces


def _prefix(frames: Frames) -> bytes:
    return b"".join(_COUNT.pack(number) for number in (len(frames), *(len(frame) for frame in frames)))
