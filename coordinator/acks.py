"""Acknowledgements that wait a little: the next task says as much to its client, and mostly comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from wire.messages import Ack

ACK_AFTER_S = 0.1
"""A durable update is acknowledged so much later, unless its client gets the next task first."""


class Acks:
    """The acknowledgements that are not sent yet, and of each client the last update that can no longer be lost."""

    def __init__(self, send: Callable[[str, Ack], None], durable: Mapping[str, tuple[int, int]]) -> None:
        """Begin with what the store holds, by client: round and exchange; `send` is called on the event loop."""
        self._send = send
        self._durable = dict(durable)
        self._due: dict[str, tuple[float, Ack]] = {}
        self._is_timed = False

    def put(self, client: str, ack: Ack) -> None:
        """Note that this client's update is durable, and acknowledge it in ACK_AFTER_S."""
        self._durable[client] = (ack.round, ack.exchange)
        self._due.pop(client, None)  # the dictionary is in the order of times
        self._due[client] = (asyncio.get_running_loop().time() + ACK_AFTER_S, ack)
        self._set_timer()

    def is_durable(self, client: str, round: int, exchange: int) -> bool:
        """Say whether the last durable update of this client is that of this exchange."""
        return self._durable.get(client) == (round, exchange)

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
