"""A client's process of Flower over gRPC, which computes nothing.

python -m tests.benchmarks.peers.grpc_client PORT PAYLOAD INDEX
"""

from __future__ import annotations

import sys
from typing import Any

from flwr.client import NumPyClient
from flwr.compat.client.app import start_client

from tests.benchmarks.peers.payloads import PAYLOADS


class Idler(NumPyClient):  # type: ignore[misc]
    """Sends an array of its own each time it is asked."""

    def __init__(self, payload: str, index: str) -> None:
        self._payload = PAYLOADS[payload]
        self._index = int(index)
        self._times = 0

    def fit(self, parameters: Any, config: Any) -> Any:
        """Return the array, a weight, and no metrics."""
        self._times += 1
        return [self._payload.answer(self._index, self._times)], 1, {}


def main(port: str, payload: str, index: str) -> None:
    """Answer until the server says that it is over."""
    start_client(server_address=f"127.0.0.1:{port}", client=Idler(payload, index).to_client(), insecure=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
