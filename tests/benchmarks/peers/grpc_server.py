"""The server's process of Flower over gRPC: FedAvg that notes when each round's work goes out and when all is back.

python -m tests.benchmarks.peers.grpc_server PORT PAYLOAD NUM_ROUNDS NUM_NEEDED DEADLINE_S MARKS
"""

from __future__ import annotations

import sys
from typing import Any

from flwr.common import ndarrays_to_parameters
from flwr.compat.server.app import start_server
from flwr.server import ServerConfig
from flwr.server.strategy import FedAvg

from tests.benchmarks.peers.marks import Marks
from tests.benchmarks.peers.payloads import PAYLOADS


class Noting(FedAvg):  # type: ignore[misc]
    """FedAvg that writes marks."""

    def __init__(self, noted: Marks, **settings: Any) -> None:
        super().__init__(**settings)
        self._noted = noted

    def configure_fit(self, *given: Any, **named: Any) -> Any:
        """Return what is to be sent."""
        instructions = super().configure_fit(*given, **named)
        self._noted.sent()
        return instructions

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """Average what came."""
        self._noted.came(len(results))
        return super().aggregate_fit(server_round, results, failures)


def main(port: str, payload: str, num_rounds: str, num_needed: str, deadline_s: str, path: str) -> None:
    """Serve until the last round is over."""
    strategy = Noting(
        Marks(path),
        fraction_evaluate=0.0,
        min_fit_clients=int(num_needed),
        min_available_clients=int(num_needed),
        initial_parameters=ndarrays_to_parameters([PAYLOADS[payload].zeros()]),
    )
    config = ServerConfig(num_rounds=int(num_rounds), round_timeout=float(deadline_s))
    start_server(server_address=f"127.0.0.1:{port}", config=config, strategy=strategy)


if __name__ == "__main__":
    main(*sys.argv[1:])
