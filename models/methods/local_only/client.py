"""The client half of local training: cross-entropy on its own samples."""

from __future__ import annotations

from models.methods.api import Client
from wire.payload import Nothing, Record


class LocalOnlyClient(Client):
    """Keeps its net to itself."""

    def receive(self, exchange: str, downlink: Nothing) -> None:
        """Install nothing."""

    def uplink(self, exchange: str) -> Record:
        """Return nothing."""
        return Nothing()
