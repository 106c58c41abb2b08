"""A connection to the coordinator that soundings go by; it never says hello, so no run takes notice."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from edge_client.keys import Keys
from wire.encoding import Packed, decode, encode
from wire.errors import DecodeError
from wire.framing import parted
from wire.messages import Echo, Refusal, Sounding
from wire.sockets.endpoint import Context, Parts
from wire.sockets.zeromq import Dealer, LinkEnd
from wire.version import PROTOCOL_VERSION

MAX_BYTES = 1 << 20
"""Longer than any echo."""

QUIET_S = 5.0
"""An echo is waited for until nothing has moved on the connection for so long."""

ECHO_S = 60.0
"""How long an echo may take, whatever moves."""


class UnansweredError(Exception):
    """A sounding that got no echo; `end` says how the connection ended, None if it did not."""

    def __init__(self, reason: str, end: LinkEnd | None = None) -> None:
        super().__init__(reason)
        self.end = end


class SilentError(UnansweredError):
    """Nothing was heard of a sounding, though the connection stands."""


class Heard(NamedTuple):
    """An echo, how long it took, and by how much the coordinator's clock is ahead of ours."""

    echo: Echo
    took_s: float
    ahead_s: float


class Line:
    """A connection that soundings go by."""

    def __init__(self, context: Context, address: str, keys: Keys | None) -> None:
        """Begin to connect."""
        own, server_key = keys or (None, "")
        self._number = 0
        self._heard: asyncio.Future[Echo | UnansweredError] = asyncio.get_running_loop().create_future()
        self._dealer = Dealer(context, address, MAX_BYTES, self._on_message, self._on_lost, own, server_key)

    def close(self) -> None:
        """End the connection."""
        self._dealer.close()

    async def sound(self, packed: Packed, returns: bool = False, times: int = 1) -> Heard:
        """Send a sounding, or so many behind each other, and return what was heard of the last.

        Raises:
            UnansweredError: the connection ended.
            SilentError: it stands, but nothing was heard in time.
        """
        version = (PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor)
        began, began_at = time.perf_counter(), time.time()
        for _ in range(times):
            self._number += 1
            self._dealer.send(encode(Sounding(version, self._number, returns), packed))
        echo = await self._outcome(began + ECHO_S)
        took_s = time.perf_counter() - began
        if isinstance(echo, UnansweredError):
            raise echo
        self._heard = asyncio.get_running_loop().create_future()
        return Heard(echo, took_s, echo.clock_s - (began_at + took_s / 2))

    async def _outcome(self, until: float) -> Echo | UnansweredError:
        """Wait for what is heard, no longer than `until` and no longer than anything moves."""
        wait_s = QUIET_S
        while not self._heard.done() and wait_s > 0 and time.perf_counter() < until:
            await asyncio.wait([self._heard], timeout=wait_s)
            quiet_s = self._dealer.quiet_s()
            wait_s = QUIET_S - quiet_s if quiet_s is not None else until - time.perf_counter()
        return self._heard.result() if self._heard.done() else SilentError("no echo in time")

    def _on_message(self, parts: Parts) -> None:
        try:
            message, _ = decode(parted(parts, MAX_BYTES))
        except DecodeError as error:
            self._hear(UnansweredError(f"an answer that is no message: {error}"))
            return
        if isinstance(message, Refusal):
            self._hear(UnansweredError(message.reason, LinkEnd.REFUSED if message.permanent else None))
        elif isinstance(message, Echo) and message.number == self._number:
            self._hear(message)

    def _on_lost(self, reason: str, end: LinkEnd) -> None:
        self._hear(UnansweredError(reason, end))

    def _hear(self, outcome: Echo | UnansweredError) -> None:
        if not self._heard.done():
            self._heard.set_result(outcome)
