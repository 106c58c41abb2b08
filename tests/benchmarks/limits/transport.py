"""The least that could do a round's job: the same bytes, with none of the project's code.

`transport_ms` has all clients in one process. `daemons_ms` has two processes for each, as the project does: an asyncio
daemon that passes what comes to a child through a socket pair, and the child that answers.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from typing import Any, NamedTuple

import zmq
import zmq.asyncio

WARM_UP_ROUNDS = 10
NUM_ROUNDS = 100
PATIENCE_MS = 20_000

PREFIX_BYTES, WHOLE_BYTES, PIECE_BYTES = 6, 65_536, 262_144
"""Of the joined form, see `wire.framing`."""

TASK, END = b"t", [b"e"]
"""What the first frame of a downlink begins with, and what ends the clients."""


class Shape(NamedTuple):
    """The bytes of each frame that goes down and up in a round, and of what acknowledges an uplink, if anything."""

    down: list[int]
    up: list[int]
    ack: list[int]


class Setting(NamedTuple):
    """How it is done; `server_key` is empty without encryption."""

    num_clients: int
    shape: Shape
    server_key: str


def shape_of(payload_bytes: int) -> Shape:
    """Return what a round of ours sends for such a payload: headers, payloads, a timing and an acknowledgement.

    All of a short message is one frame; a longer payload has frames of its own, as where it is encrypted.
    """
    down, up = PREFIX_BYTES + 51, PREFIX_BYTES + 50 + 52
    if up + payload_bytes <= WHOLE_BYTES:
        return Shape([down + payload_bytes], [up + payload_bytes], [8])
    pieces = [min(PIECE_BYTES, payload_bytes - at) for at in range(0, payload_bytes, PIECE_BYTES)]
    return Shape([down, *pieces], [up, *pieces], [8])


PROTOTYPES = shape_of(2060)
"""10 x 50 float32, with counts and class ids."""


def transport_ms(
    num_clients: int, shape: Shape = PROTOTYPES, is_encrypted: bool = False, num_rounds: int = NUM_ROUNDS
) -> list[float]:
    """Return the duration of each round with bare sockets in two processes."""
    return _rounds_ms("dealers", 1, num_clients, shape, is_encrypted, num_rounds)


def daemons_ms(num_clients: int, shape: Shape = PROTOTYPES, is_encrypted: bool = False) -> list[float]:
    """Return the duration of each round with a bare daemon and a bare child for every client."""
    return _rounds_ms("daemon", num_clients, num_clients, shape, is_encrypted, NUM_ROUNDS)


def _rounds_ms(
    role: str, num_processes: int, num_clients: int, shape: Shape, is_encrypted: bool, num_rounds: int
) -> list[float]:
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
    public, secret = zmq.curve_keypair()
    if is_encrypted:
        router.curve_server, router.curve_secretkey = True, secret
    port = router.bind_to_random_port("tcp://127.0.0.1")
    setting = Setting(num_clients, shape, public.decode() if is_encrypted else "")
    words = [sys.executable, "-I", __file__, role, str(port), json.dumps(setting)]
    processes = [subprocess.Popen(words) for _ in range(num_processes)]
    try:
        routes = [router.recv_multipart()[0] for _ in range(num_clients)]
        durations = [_round_ms(router, routes, shape) for _ in range(WARM_UP_ROUNDS + num_rounds)]
        for route in routes:
            router.send_multipart([route, *END])
        for process in processes:
            process.wait(PATIENCE_MS / 1000)
        return durations[WARM_UP_ROUNDS:]
    finally:
        for process in processes:
            process.kill()
        context.destroy(linger=0)


def _round_ms(router: zmq.Socket[bytes], routes: list[bytes], shape: Shape) -> float:
    """Send to all, and acknowledge every answer."""
    downlink, ack = _frames(shape.down, TASK), _frames(shape.ack)
    started = time.perf_counter()
    for route in routes:
        router.send_multipart([route, *downlink])
    for _ in routes:
        route = router.recv_multipart()[0]
        if ack:
            router.send_multipart([route, *ack])
    return 1000 * (time.perf_counter() - started)


def _frames(sizes: list[int], beginning: bytes = b"\0") -> list[bytes]:
    return [beginning * size for size in sizes]


def _dealers(port: int, setting: Setting) -> None:
    context, poller = zmq.Context(), zmq.Poller()
    uplink = _frames(setting.shape.up)
    for _ in range(setting.num_clients):
        dealer = context.socket(zmq.DEALER)
        _connect(dealer, port, setting.server_key)
        dealer.send_multipart([b"hello"])
        poller.register(dealer, zmq.POLLIN)
    while events := poller.poll(PATIENCE_MS):
        for ready, _ in events:
            frames = ready.recv_multipart()
            if frames == END:
                return
            if frames[0].startswith(TASK):
                ready.send_multipart(uplink)


def _connect(dealer: zmq.Socket[Any], port: int, server_key: str) -> None:
    if server_key:
        dealer.curve_publickey, dealer.curve_secretkey = zmq.curve_keypair()
        dealer.curve_serverkey = server_key.encode()
    dealer.connect(f"tcp://127.0.0.1:{port}")


async def _daemon(port: int, setting: Setting) -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", __file__, "child", str(theirs.fileno()), json.dumps(setting)]
    child = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours)
    dealer = zmq.asyncio.Context().socket(zmq.DEALER)
    _connect(dealer, port, setting.server_key)
    await dealer.send_multipart([b"hello"])
    while (frames := await asyncio.wait_for(dealer.recv_multipart(), PATIENCE_MS / 1000)) != END:
        if frames[0].startswith(TASK):
            writer.write(b"".join(frames))
            await dealer.send_multipart([await reader.readexactly(size) for size in setting.shape.up])
    writer.close()
    await writer.wait_closed()
    child.wait()
    dealer.close()


def _child(descriptor: int, setting: Setting) -> None:
    size_bytes, uplink = sum(setting.shape.down), b"".join(_frames(setting.shape.up))
    with socket.socket(fileno=descriptor) as pipe:
        while len(pipe.recv(size_bytes, socket.MSG_WAITALL)) == size_bytes:
            pipe.sendall(uplink)


def _main(role: str, number: str, told: str) -> None:
    num_clients, shape, server_key = json.loads(told)
    setting = Setting(num_clients, Shape(*shape), server_key)
    if role == "dealers":
        _dealers(int(number), setting)
    elif role == "daemon":
        asyncio.run(_daemon(int(number), setting))
    else:
        _child(int(number), setting)


if __name__ == "__main__":
    _main(*sys.argv[1:])
