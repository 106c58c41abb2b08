"""A round with up to a thousand clients that compute nothing: all of them in one process, each on a link of its own.

They speak the protocol and nothing more, so that what is measured is the coordinator, its aggregator and its store.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import zmq

from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from tests.benchmarks.limits import transport
from tests.integration.keyring import Keyring
from wire.encoding import Packed, decode, encode, pack
from wire.framing import joined, parted
from wire.limits import DEFAULT_MAX_MESSAGE_BYTES
from wire.messages import Finish, Hello, Message, Ping, Pong, Ready, Task, Update, Welcome
from wire.payload import EMPTY
from wire.version import PROTOCOL_VERSION

CLIENTS = (20, 100, 1000)
NUM_ROUNDS = 40
PATIENCE_MS = 60_000

MAX_ROUND_MS = 400.0
"""The bound with a thousand clients."""

MAX_GROWTH = 1.5
"""How many times as long a round may take for each client when there are fifty times as many."""


def run(out: Path) -> list[Figure]:
    """Return the time of a round by number of clients and security, beside the bare transport."""
    bare = {num: Figure.of(f"{num} clients: bare transport", "ms", transport.transport_ms(num)) for num in CLIENTS}
    figures = list(bare.values())
    for security in ("none", "curve"):
        rounds = [_round(out, num, security, bare[num]) for num in CLIENTS]
        few, many = rounds[0], rounds[-1]
        growth = (many.median / CLIENTS[-1]) / (few.median / CLIENTS[0])
        name = f"{security}: time per client, {CLIENTS[-1]} clients over {CLIENTS[0]}"
        figures += [*rounds, Figure.of(name, "x", [growth], target=MAX_GROWTH)]
    return figures


def _round(out: Path, num_clients: int, security: str, bare: Figure) -> Figure:
    summary = serve(out, num_clients, security)
    target = MAX_ROUND_MS if num_clients == CLIENTS[-1] else None
    about = {"target": target, "limit": bare.median, "limit_name": "bare transport"}
    return Figure.of_rounds(f"{security}: round, {num_clients} clients", summary["round_s"], NUM_ROUNDS, **about)


def serve(
    out: Path, num_clients: int, security: str = "curve", num_classes: int = 10, feature_dim: int = 50
) -> dict[str, Any]:
    """Run `coordinator serve` for a crowd to its end, and return its summary."""
    keyring = Keyring(Path(tempfile.mkdtemp(dir=out)), [f"client-{index:04d}" for index in range(num_clients)])
    settings = [
        *job.noop_settings(out, num_clients, NUM_ROUNDS, "disk", num_classes, feature_dim),
        f"round.min_clients={num_clients}",
        "transport.bind=127.0.0.1:0",
        f"transport.security={security}",
        f"transport.keys={keyring.folder}",
    ]
    crowd: list[subprocess.Popen[bytes]] = []

    def gather(running: job.RunningJob) -> None:
        if not crowd and running.address:
            crowd.append(_start(out, running.address, keyring, security))

    try:
        return job.run(settings, out, watch=gather, command="serve").summary
    finally:
        for process in crowd:
            process.kill()
            process.wait()


def _start(out: Path, address: str, keyring: Keyring, security: str) -> subprocess.Popen[bytes]:
    """Start all clients of a run in a process of their own."""
    own = {client: list(pair) if security == "curve" else None for client, pair in keyring.pairs.items()}
    path = out / "crowd.json"
    path.write_text(json.dumps({"address": address, "server_key": keyring.coordinator.public, "clients": own}))
    return subprocess.Popen([sys.executable, "-m", "tests.benchmarks.crowd", str(path)])


class _Client:
    """Joins, and answers each task with the record that came, as one of the same size goes both ways."""

    def __init__(self, client: str, socket: zmq.Socket[bytes], is_encrypted: bool) -> None:
        self._socket = socket
        self._is_encrypted = is_encrypted
        self.is_done = False
        self._send(Hello((PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor), client, 1))

    def hear(self, parts: list[bytes]) -> None:
        """Take a message and answer it."""
        message, packed = decode(parted(parts, DEFAULT_MAX_MESSAGE_BYTES))
        if isinstance(message, Welcome):
            counts = [job.NOOP_PER_CLASS] * len(message.spec["classes"])
            self._send(Ready(message.run, sum(counts), 0, counts, message.spec["model"]["feature_dim"], 0, 0))
        elif isinstance(message, Task):
            answer = packed if message.exchange == 0 else pack(EMPTY)
            self._send(Update(message.run, message.round, message.exchange), answer)
        elif isinstance(message, Ping):
            self._send(Pong())
        self.is_done = isinstance(message, Finish)

    def _send(self, message: Message, packed: Packed | None = None) -> None:
        self._socket.send_multipart(joined(encode(message, packed), self._is_encrypted))


def main(path: Path) -> None:
    """Be all clients of a file, until the last has heard that the run is over."""
    told = json.loads(path.read_text())
    context, poller = zmq.Context(), zmq.Poller()
    context.set(zmq.MAX_SOCKETS, 2 * len(told["clients"]))
    clients: dict[zmq.Socket[bytes], _Client] = {}
    for client, pair in told["clients"].items():
        dealer = context.socket(zmq.DEALER)
        if pair is not None:
            dealer.curve_publickey, dealer.curve_secretkey = map(bytes.fromhex, pair)
            dealer.curve_serverkey = bytes.fromhex(told["server_key"])
        dealer.connect(f"tcp://{told['address']}")
        poller.register(dealer, zmq.POLLIN)
        clients[dealer] = _Client(client, dealer, pair is not None)
    while clients and (events := poller.poll(PATIENCE_MS)):
        for dealer, _ in events:
            clients[dealer].hear(dealer.recv_multipart())
            if clients[dealer].is_done:
                poller.unregister(dealer)
                del clients[dealer]
    context.destroy(linger=0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
