"""What every client sends and gets in a round: one array of float32, in four sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Payload:
    """The shape of the array."""

    name: str
    rows: int
    width: int

    @property
    def num_bytes(self) -> int:
        """Of its values alone."""
        return 4 * self.rows * self.width

    def zeros(self) -> np.ndarray:
        """Return what a server begins with."""
        return np.zeros((self.rows, self.width), np.float32)

    def answer(self, client: int, times: int) -> np.ndarray:
        """Return what a client sends: another array for each client, and each time it is asked."""
        return np.full((self.rows, self.width), client, np.float32) + np.float32(times / 1000)


PAYLOADS = {
    payload.name: payload
    for payload in (
        Payload("10 x 50", 10, 50),
        Payload("100 x 50", 100, 50),
        Payload("100 x 500", 100, 500),
        Payload("1.3 M", 1300, 1000),
    )
}
