"""The least that could do a round's job: the same bytes, with none of the project's code.

`transport_ms` has all clients in one process. `daemons_ms` has two processes for each, as the project does: an asyncio
daemon that passes what comes to a child through a socket pair, and the child that answers.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable

import zmq
import zmq.asyncio

DOWNLINK = [b"h" * 58, b"\0" * 2060]
UPLINK = [b"h" * 47, b"\0" * 2060]
SIZE_BYTES = sum(len(frame) for frame in UPLINK)
ACK, END = [b"a" * 8], [b"e"]

WARM_UP_ROUNDS = 10
NUM_ROUNDS = 100
PATIENCE_MS = 20_000


def transport_ms(num_clients: int) -> list[float]:
    """Return the duration of each round with bare sockets in two processes."""
    return _rounds_ms(num_clients, lambda port: [_start("dealers", port, num_clients)])


def daemons_ms(num_clients: int) -> list[float]:
    """Return the duration of each round with a bare daemon and a bare child for every client."""
    return _rounds_ms(num_clients, lambda port: [_start("daemon", port) for _ in range(num_clients)])


def _start(*role: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-I", __file__, *map(str, role)])


def _rounds_ms(num_clients: int, start: Callable[[int], list[subprocess.Popen[bytes]]]) -> list[float]:
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
    processes = start(router.bind_to_random_port("tcp://127.0.0.1"))
    try:
        routes = [router.recv_multipart()[0] for _ in range(num_clients)]
        durations = [_round_ms(router, routes) for _ in range(WARM_UP_ROUNDS + NUM_ROUNDS)]
        for route in routes:
            router.send_multipart([route, *END])
        for process in processes:
            process.wait(PATIENCE_MS / 1000)
        return durations[WARM_UP_ROUNDS:]
    finally:
        for process in processes:
            process.kill()
        context.destroy(linger=0)


def _round_ms(router: zmq.Socket[bytes], routes: list[bytes]) -> float:
    """Send to all, and acknowledge every answer."""
    started = time.perf_counter()
    for route in routes:
        router.send_multipart([route, *DOWNLINK])
    for _ in routes:
        router.send_multipart([router.recv_multipart()[0], *ACK])
    return 1000 * (time.perf_counter() - started)


def _dealers(port: int, num_clients: int) -> None:
    context, poller = zmq.Context(), zmq.Poller()
    for _ in range(num_clients):
        dealer = context.socket(zmq.DEALER)
        dealer.connect(f"tcp://127.0.0.1:{port}")
        dealer.send_multipart([b"hello"])
        poller.register(dealer, zmq.POLLIN)
    while events := poller.poll(PATIENCE_MS):
        for ready, _ in events:
            frames = ready.recv_multipart()
            if frames == END:
                return
            if frames != ACK:
                ready.send_multipart(UPLINK)


async def _daemon(port: int) -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", __file__, "child", str(theirs.fileno())]
    child = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours)
    dealer = zmq.asyncio.Context().socket(zmq.DEALER)
    dealer.connect(f"tcp://127.0.0.1:{port}")
    await dealer.send_multipart([b"hello"])
    while (frames := await asyncio.wait_for(dealer.recv_multipart(), PATIENCE_MS / 1000)) != END:
        if frames != ACK:
            writer.write(b"".join(frames))
            answer = await reader.readexactly(SIZE_BYTES)
            await dealer.send_multipart([answer[: len(UPLINK[0])], answer[len(UPLINK[0]) :]])
    writer.close()
    await writer.wait_closed()
    child.wait()
    dealer.close()


def _child(descriptor: int) -> None:
    size_bytes = sum(len(frame) for frame in DOWNLINK)
    with socket.socket(fileno=descriptor) as pipe:
        while len(pipe.recv(size_bytes, socket.MSG_WAITALL)) == size_bytes:
            pipe.sendall(b"".join(UPLINK))


if __name__ == "__main__":
    role, *numbers = sys.argv[1], *map(int, sys.argv[2:])
    if role == "dealers":
        _dealers(*numbers)
    elif role == "daemon":
        asyncio.run(_daemon(*numbers))
    else:
        _child(*numbers)
