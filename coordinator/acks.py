"""Acknowledgements that wait a little: the next task says as much to its client, and mostly comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from wire.messages import Ack

ACK_AFTER_S = 0.1
"""A durable update is acknowledged so much later, unless its client gets the next task first."""


class Acks:
    """The acknowledgements that are not sent yet; `send` is called on the event loop that runs as they are put."""

    def __init__(self, send: Callable[[str, Ack], None]) -> None:
        self._send = send
        self._due: dict[str, tuple[float, Ack]] = {}
        self._is_timed = False

    def put(self, client: str, ack: Ack) -> None:
        """Acknowledge this client's update in ACK_AFTER_S."""
        self._due.pop(client, None)  # the dictionary is in the order of times
        self._due[client] = (asyncio.get_running_loop().time() + ACK_AFTER_S, ack)
        self._set_timer()

    def drop(self, client: str) -> None:
        """The client is told otherwise."""
        self._due.pop(client, None)

    def send_all(self) -> None:
        """Send what waits, now."""
        due, self._due = self._due, {}
        for client, (_, ack) in due.items():
            self._send(client, ack)

    def _set_timer(self) -> None:
        if self._due and not self._is_timed:
            self._is_timed = True
            asyncio.get_running_loop().call_at(next(iter(self._due.values()))[0], self._send_due)

    def _send_due(self) -> None:
        self._is_timed = False
        now = asyncio.get_running_loop().time()
        for client, (at, ack) in list(self._due.items()):
            if at <= now:
                self._due.pop(client)
                self._send(client, ack)
        self._set_timer()
