"""The server half of local training: it keeps nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from models.methods.api import Server, Update
from wire.payload import Nothing, Record


class LocalOnlyServer(Server):
    """Counts who took part."""

    def configure(self, round: int, exchange: str) -> Record:
        """Return nothing."""
        return Nothing()

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Count the updates."""
        return {"num_updates": float(sum(1 for _ in updates))}

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return nothing."""
        return {}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up nothing."""
