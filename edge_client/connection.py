"""One connection to the coordinator: made, spoken through, and looked at where it ends without a word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from edge_client.keys import Keys
from models.settings import split_address
from wire.encoding import Frames
from wire.framing import is_joined, joined
from wire.limits import MAX_MESSAGE_BYTES
from wire.sockets.endpoint import Context, Parts
from wire.sockets.knock import mechanism_at
from wire.sockets.names import look_up
from wire.sockets.zeromq import Dealer, LinkEnd, mismatch


class Connection:
    """A connection that is made once; that it is lost, and how in words, is told once, and nothing after `close`."""

    def __init__(
        self,
        context: Context,
        address: str,
        keys: Keys | None,
        on_message: Callable[[Parts], None],
        on_lost: Callable[[str, LinkEnd], None],
    ) -> None:
        """Begin to connect to `host:port`; without keys it is not encrypted."""
        self._address = address
        self._is_encrypted = keys is not None
        self._on_message = on_message
        self._on_lost = on_lost
        self._knows_joined = False
        own, server_key = keys or (None, "")
        self.dealer = Dealer(context, address, MAX_MESSAGE_BYTES, self._on_parts, self._on_end, own, server_key)
        self._looking_up = asyncio.get_running_loop().create_task(self._look_up())
        self._looking_closer: asyncio.Task[None] | None = None

    def quiet_s(self) -> float | None:
        """Return for how long nothing has moved, None if that is unknown; 0 while its end is looked at closer."""
        return self.dealer.quiet_s() if self._looking_closer is None else 0.0

    def send(self, frames: Frames, may_lapse: bool = False) -> None:
        """Send a message, in the joined form if the other end has used that itself.

        One that may lapse does where something before it has yet to go out.
        """
        self.dealer.send(joined(frames, self._is_encrypted) if self._knows_joined else frames, may_lapse)

    def close(self) -> None:
        """Close it; what was sent last is still delivered."""
        self._looking_up.cancel()
        if self._looking_closer is not None:
            self._looking_closer.cancel()
        self.dealer.close()

    def _on_parts(self, parts: Parts) -> None:
        self._looking_up.cancel()
        self._knows_joined = self._knows_joined or is_joined(parts)
        self._on_message(parts)

    def _on_end(self, reason: str, end: LinkEnd) -> None:
        self._looking_up.cancel()
        if end is LinkEnd.BROKEN_OFF:
            self._looking_closer = asyncio.get_running_loop().create_task(self._look_closer(reason))
        else:
            self._on_lost(reason, end)

    async def _look_up(self) -> None:
        """Tell of a name that is not found: libzmq keeps that to itself."""
        host, _ = split_address(self._address) or ("", 0)
        try:
            await look_up(host)
        except OSError as error:
            self._on_lost(f"{host} does not resolve: {error.strerror}", LinkEnd.GONE)

    async def _look_closer(self, reason: str) -> None:
        """Tell a coordinator that has other keys, or none, from nobody: all end a connection without a word."""
        ours, theirs = "CURVE" if self._is_encrypted else "NULL", await mechanism_at(self._address)
        if theirs not in ("", ours):
            self._on_lost(mismatch(self._is_encrypted), LinkEnd.REFUSED)
        else:
            self._on_lost(reason, LinkEnd.BROKEN_OFF if theirs == "CURVE" else LinkEnd.GONE)
