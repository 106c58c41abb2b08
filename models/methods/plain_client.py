"""The client half that exchanges nothing: the shared training loop over a net, and no more."""

from __future__ import annotations

from typing import Any

from models.methods.api import Client
from wire.payload import Nothing, Record


class PlainClient(Client):
    """Keeps its net to itself."""

    def receive(self, exchange: str, downlink: Any) -> None:
        """Install nothing."""

    def uplink(self, exchange: str) -> Record:
        """Return nothing."""
        return Nothing()
