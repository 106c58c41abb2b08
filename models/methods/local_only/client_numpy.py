"""The client half of local training over a frozen backbone."""

from __future__ import annotations

from models.methods.numpy_client import NumpyClient
from models.methods.plain_client import PlainClient


class LocalOnlyNumpyClient(PlainClient, NumpyClient):
    """Keeps what it trains to itself."""
