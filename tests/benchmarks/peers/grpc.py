"""Flower over gRPC, as it was before SuperLink: `start_server` and `start_client`, which are deprecated."""

from __future__ import annotations

import sys

from tests.benchmarks.peers.contender import SERVER, client_name
from tests.benchmarks.peers.flower import Flower


class Grpc(Flower):
    """A process for the server and one for each client, unencrypted, nothing kept on disk."""

    name = "gRPC"

    def start_server(self) -> None:
        """Start the server, which begins with round 1 as soon as enough clients are there."""
        setting = self.setting
        words = [self.port, setting.payload.name, setting.num_rounds, setting.num_needed, setting.deadline_s]
        self.processes.start("server", SERVER, [*_module("grpc_server"), *map(str, words), self.marks_path])

    def start_client(self, index: int, port: int) -> None:
        """Start a client."""
        words = [str(port), self.setting.payload.name, str(index)]
        self.processes.start("client", client_name(index), [*_module("grpc_client"), *words])


def _module(name: str) -> list[str]:
    return [sys.executable, "-m", f"tests.benchmarks.peers.{name}"]
