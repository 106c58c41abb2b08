"""Looking at who listens at an address, before any keys are used: is it ZeroMQ, and does it encrypt?

A tunnel or a proxy accepts connections also when nobody is behind it, and then ends them without a word, as a
coordinator with other keys does. The greeting of ZMTP, which comes before all keys, tells the two apart.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from wire.sockets.names import look_up

KNOCK_S = 6.0
"""How long an answer may take: on a slow link it is two round trips away."""

_VERSIONED = b"\xff" + bytes(8) + b"\x7f\x03\x01"
"""As much of a greeting as brings forth all of theirs: with a mechanism that they do not have, they would say none."""

_GREETING_BYTES = 64


async def mechanism_at(address: str) -> str:
    """Return the mechanism that a peer at `host:port` greets with, `CURVE` or `NULL`; "" if none does in time."""
    host, _, port = address.rpartition(":")
    return await _in_time(_knock(host.strip("[]"), int(port)))


async def mechanism_by(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """Return the same of the peer of a new connection, which is closed by that."""
    return await _in_time(_greeting(reader, writer))


async def _in_time(look: Coroutine[Any, Any, str]) -> str:
    with contextlib.suppress(OSError, asyncio.TimeoutError, EOFError, UnicodeDecodeError):
        return await asyncio.wait_for(look, KNOCK_S)
    return ""


async def _knock(host: str, port: int) -> str:
    first, *_ = await look_up(host)
    return await _greeting(*await asyncio.open_connection(first, port))


async def _greeting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    try:
        writer.write(_VERSIONED)
        theirs = await reader.readexactly(_GREETING_BYTES)
    finally:
        writer.close()
    return theirs[12:32].rstrip(b"\0").decode("ascii") if theirs[:1] + theirs[9:10] == b"\xff\x7f" else ""
