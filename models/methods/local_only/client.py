"""The client half of local training: cross-entropy on its own samples."""

from __future__ import annotations

from models.methods.plain_client import PlainClient


class LocalOnlyClient(PlainClient):
    """Keeps its net to itself."""
