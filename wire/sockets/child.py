"""The daemon's end of the pipe to its child process, which it starts and sees end.

The child is `python -I -m MODULE --pipe FD ...`, so nothing that lies beside a user's files is imported by accident.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from wire.encoding import Frames
from wire.sockets.log import last_lines, size_bytes
from wire.sockets.outbox import Outbox
from wire.sockets.stream import Inbox, StreamError, pieces
from wire.tensors import Buffer

SEND_BYTES = 1024 * 1024
"""How much may lie in the pipe either way, as far as the system allows it."""

LAST_LINES = 12
"""Lines of a child's output that are quoted when it died."""

KILL_AFTER_S = 1.0
"""How long a child may take to end after it was asked to."""


OnMessage = Callable[[list[Buffer]], None]


class Child(asyncio.BufferedProtocol):
    """The daemon's end: starts the child, calls back for each message and, in words, when the child is gone."""

    def __init__(self, on_message: OnMessage, on_gone: Callable[[str], None], log: Path) -> None:
        self._on_message = on_message
        self._on_gone = on_gone
        self._log = log
        self._log_before_bytes = 0
        self._inbox, self._outbox = Inbox(), Outbox()
        self._fault = ""
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._is_halted = False

    def belong_to(self, on_message: OnMessage, on_gone: Callable[[str], None], log: Path) -> None:
        """Call back there from now on; `log` is where the child, which has been told, writes its output by then."""
        self._on_message, self._on_gone, self._log = on_message, on_gone, log
        self._log_before_bytes = size_bytes(log)

    async def start(self, module: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start `python -I -m module --pipe FD *arguments`; its output goes to the end of the log file.

        One that was stopped before is not started.
        """
        if self._stopping:
            return
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        ours.setblocking(False)
        self._log_before_bytes = size_bytes(self._log)
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
        if self._is_halted:
            self._process.send_signal(signal.SIGSTOP)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, sock=ours)

    @property
    def pid(self) -> int | None:
        """The child's process id."""
        return self._process.pid if self._process else None

    def send(self, frames: Frames) -> None:
        """Queue one message for the child, also before it has started."""
        for piece in pieces([frames]):
            self._outbox.put(piece)

    async def send_all(self, messages: Iterable[Frames]) -> None:
        """Send many messages, small ones together, and wait while the child is behind."""
        for piece in pieces(messages):
            await self.drain()
            self._outbox.put(piece)

    async def drain(self) -> None:
        """Wait until all that was sent is in the pipe, or the child is gone."""
        await self._outbox.drain()

    def halt(self, is_halted: bool) -> None:
        """Have the child stand still, also one that is yet to start, or go on."""
        if self._process is not None and is_halted != self._is_halted:
            self._process.send_signal(signal.SIGSTOP if is_halted else signal.SIGCONT)
        self._is_halted = is_halted

    async def stop(self) -> None:
        """Close the pipe and see the child end, within KILL_AFTER_S and by force if need be."""
        self._stopping = True
        self.halt(False)
        self._close()
        if self._process is None:
            return
        for _ in range(round(KILL_AFTER_S / 0.02)):
            if self._process.poll() is not None:
                return
            await asyncio.sleep(0.02)
        self._process.kill()
        self._waited(self._process)

    def kill(self) -> None:
        """End the child at once."""
        if self._process is not None:
            self._process.kill()

    def last_lines(self) -> str:
        """Return the last lines of its log since the child writes there, which others may write to as well."""
        return "\n".join(last_lines(self._log, LAST_LINES, self._log_before_bytes))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what was queued early (called by asyncio)."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._outbox.open(transport)

    def pause_writing(self) -> None:
        """Hold what is yet to be written (called by asyncio)."""
        self._outbox.hold()

    def resume_writing(self) -> None:
        """Go on writing (called by asyncio)."""
        self._outbox.go_on()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go (called by asyncio)."""
        return self._inbox.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Call back for every message that is whole by now; a child that sends none is ended (called by asyncio)."""
        self._inbox.filled(nbytes)
        try:
            while (frames := self._inbox.take()) is not None:
                self._on_message(frames)
        except StreamError as error:
            self._fault = f"was ended, as what it sent is no message: {error}"
            self.kill()
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report that the child is gone (called by asyncio)."""
        self._outbox.close()
        if self._stopping or self._process is None:
            return
        code = self._waited(self._process)
        if code is None:
            self._process.kill()
            code = self._waited(self._process)
        self._on_gone(self._with_last_lines(self._fault or _ending_in_words(code)))

    @staticmethod
    def _waited(process: subprocess.Popen[bytes]) -> int | None:
        """Return the exit code of a process that ends in time, None of one that the kernel takes longer to end."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(KILL_AFTER_S)
        return None

    def _with_last_lines(self, how: str) -> str:
        lines = self.last_lines()
        return f"{how}; the last lines of {self._log.name} since it was started:\n{lines}" if lines else how

    def _close(self) -> None:
        self._outbox.close()
        if self._transport is not None:
            self._transport.abort()


def _ending_in_words(code: int | None) -> str:
    if code is None:
        return f"has closed its pipe, and was not gone {KILL_AFTER_S:g} s after it was killed"
    return f"ended with signal {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def thread_environment(threads: int) -> dict[str, str]:
    """Return what makes the mathematical libraries of a child use so many threads."""
    return dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
