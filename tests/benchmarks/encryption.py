"""What encryption costs: the bare transport at two sizes, and rounds of clients that compute nothing."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import zmq

from tests.benchmarks import job
from tests.benchmarks.figure import Figure

SIZES = {"2 KB": 2_000, "200 KB": 200_000}
NUM_ECHOES = 400
WARM_UP = 50
PATIENCE_MS = 20_000

NUM_CLIENTS = 8
NUM_ROUNDS = 100
REPEATS = 5
"""Runs of each kind."""


def run(out: Path) -> list[Figure]:
    """Return encrypted durations beside plain ones, which are their limit."""
    figures = []
    for name, size in SIZES.items():
        plain = Figure.of(f"{name} there and back, plain", "ms", _echoes_ms(size, is_encrypted=False))
        about = {"limit": plain.median, "limit_name": "plain"}
        figures += [plain, Figure.of(f"{name} there and back, CURVE", "ms", _echoes_ms(size, True), **about)]
    return figures + _rounds(out)


def _rounds(out: Path) -> list[Figure]:
    """Return the medians of runs that took turns, so that other work on the machine met both kinds."""
    settings = job.noop_settings(out, NUM_CLIENTS, NUM_ROUNDS, "memory")
    medians: dict[str, list[float]] = {"none": [], "curve": []}
    for _ in range(REPEATS):
        for security, found in medians.items():
            summary = job.run([*settings, f"transport.security={security}"], out).summary
            found.append(1000 * summary["coordination_s"]["median"])
    plain = Figure.of(f"{NUM_CLIENTS} clients: coordination, plain", "ms", medians["none"])
    about = {"limit": plain.median, "limit_name": "plain"}
    return [plain, Figure.of(f"{NUM_CLIENTS} clients: coordination, CURVE", "ms", medians["curve"], **about)]


def _echoes_ms(size: int, is_encrypted: bool) -> list[float]:
    """Return how long each message of `size` bytes took to a bare peer in a process of its own and back."""
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
    public, secret = zmq.curve_keypair()
    if is_encrypted:
        router.curve_server, router.curve_secretkey = True, secret
    port = router.bind_to_random_port("tcp://127.0.0.1")
    key = public.hex() if is_encrypted else "-"
    peer = subprocess.Popen([sys.executable, "-I", __file__, str(port), key, str(NUM_ECHOES + WARM_UP)])
    try:
        route, _ = router.recv_multipart()
        durations = [_echo_ms(router, [route, bytes(size)]) for _ in range(NUM_ECHOES + WARM_UP)]
        peer.wait(PATIENCE_MS / 1000)
    finally:
        peer.kill()
        context.destroy(linger=0)
    return durations[WARM_UP:]


def _echo_ms(router: zmq.Socket[bytes], message: list[bytes]) -> float:
    started = time.perf_counter()
    router.send_multipart(message)
    router.recv_multipart()
    return 1000 * (time.perf_counter() - started)


def _peer(port: str, key: str, count: str) -> None:
    context = zmq.Context()
    dealer = context.socket(zmq.DEALER)
    if key != "-":
        dealer.curve_publickey, dealer.curve_secretkey = zmq.curve_keypair()
        dealer.curve_serverkey = bytes.fromhex(key)
    dealer.connect(f"tcp://127.0.0.1:{port}")
    dealer.send(b"hello")
    for _ in range(int(count)):
        dealer.send(dealer.recv())
    context.destroy(linger=PATIENCE_MS)


if __name__ == "__main__":
    _peer(*sys.argv[1:])
