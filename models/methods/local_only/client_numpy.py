"""The client half of local training over a frozen backbone."""

from __future__ import annotations

from models.methods.numpy_client import NumpyClient
from wire.payload import Nothing, Record


class LocalOnlyNumpyClient(NumpyClient):
    """Keeps what it trains to itself."""

    def receive(self, exchange: str, downlink: Nothing) -> None:
        """Install nothing."""

    def uplink(self, exchange: str) -> Record:
        """Return nothing."""
        return Nothing()
