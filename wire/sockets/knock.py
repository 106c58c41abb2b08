"""Looking at who listens at an address, before any keys are used: is it ZeroMQ, and does it encrypt?

A tunnel or a proxy accepts connections also when nobody is behind it, and then ends them without a word, as a
coordinator with other keys does. The greeting of ZMTP, which comes before all keys, tells the two apart.
"""

from __future__ import annotations

import asyncio
import contextlib

KNOCK_S = 2.0
"""How long an answer may take."""

_SIGNATURE = b"\xff" + bytes(8) + b"\x7f"
_GREETING = _SIGNATURE + b"\x03\x00" + b"CURVE".ljust(20, b"\0") + bytes(32)


async def is_encrypted_port(address: str) -> bool:
    """Say whether a peer at `host:port` greets as one does that encrypts; False also if nobody answers in time."""
    host, _, port = address.rpartition(":")
    with contextlib.suppress(OSError, asyncio.TimeoutError, EOFError):
        return await asyncio.wait_for(_greets(host.strip("[]"), int(port)), KNOCK_S)
    return False


async def _greets(host: str, port: int) -> bool:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_GREETING)
        theirs = await reader.readexactly(len(_GREETING))
    finally:
        writer.close()
    return theirs[:1] + theirs[9:10] == b"\xff\x7f" and theirs[12:32].rstrip(b"\0") == b"CURVE"
