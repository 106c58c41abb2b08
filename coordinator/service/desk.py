"""The desk: where a standing coordinator takes orders of people on its own machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from coordinator.service.orders import LENGTH, ORDERS, SOCKET, Refused, from_bytes, length_of, to_bytes
from coordinator.store.schema import is_full
from models.spec import ConfigError
from wire.errors import DecodeError, EncodeError
from wire.messages import Message

READ_S = 10.0
"""How long an order may take to come in."""

BACKLOG = 16


class Desk:
    """A socket in the service's folder that nobody but its owner may open."""

    def __init__(self, folder: Path, carry_out: Callable[[Message], Awaitable[Message]]) -> None:
        """Say who carries out orders; whatever he raises, its text is the answer then."""
        self.path = folder / SOCKET
        self._carry_out = carry_out
        self._server: asyncio.Server | None = None
        self._bound: int | None = None

    async def open(self) -> None:
        """Take orders from now on; what an earlier process left at the place is removed.

        Raises:
            ConfigError: the socket cannot be made.
        """
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.path.unlink(missing_ok=True)
            _bind_privately(listener, self.path)
            self._bound = _inode(self.path)
        except OSError as error:
            listener.close()
            expected, got = "expected a folder for a socket, whose whole path has 107 bytes at most", error.strerror
            raise ConfigError(f"[service] dir: {expected}, {self.path} cannot be one: {got or error}") from None
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, backlog=BACKLOG)

    def close(self) -> None:
        """Take no more orders."""
        if self._server is not None:
            self._server.close()
            if _inode(self.path) == self._bound:  # else it was moved, and another desk may be there
                self.path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            try:
                writer.write(await self._answer(reader))
                await asyncio.wait_for(writer.drain(), READ_S)
            finally:
                writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            order = from_bytes(await asyncio.wait_for(_read(reader), READ_S), ORDERS)
            return to_bytes(await self._carry_out(order))
        except (asyncio.IncompleteReadError, asyncio.TimeoutError):
            raise  # no order came, so nobody waits for an answer
        except (ConfigError, DecodeError, EncodeError, OSError) as error:
            return to_bytes(Refused(str(error), is_full(error)))
        except Exception as error:  # a fault in one order is nothing to the others
            told = {"message": "an order could not be carried out", "exception": error}
            asyncio.get_running_loop().call_exception_handler(told)
            return to_bytes(Refused(f"internal error: {type(error).__name__}: {error}"))


def _bind_privately(listener: socket.socket, path: Path) -> None:
    """Bind a socket that there is no moment in which others may open."""
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    finally:
        os.umask(mask)


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None


async def _read(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(length_of(await reader.readexactly(LENGTH.size)))
