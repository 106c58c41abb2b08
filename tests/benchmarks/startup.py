"""How long the daemons take from their start until the coordinator listens and the client says hello."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import zmq

from coordinator.clients.keys import init
from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from wire.encoding import decode
from wire.messages import Hello
from wire.sockets.keys import keep_secret, make_pair

REPEATS = 7
MAX_START_S = 0.5
TIMEOUT_S = 20.0

BASE_IMPORTS = "import asyncio, sqlite3, numpy, zmq, msgpack, msgspec, safetensors"
"""What a daemon cannot do without, whatever its own code is."""


def run(out: Path) -> list[Figure]:
    """Return the time to listening and to the hello, beside that of an interpreter with the libraries."""
    bare = [_bare_start_s() for _ in range(REPEATS)]
    about = {"limit": Figure.of("bare", "s", bare).median, "limit_name": "interpreter and libraries"}
    return [
        Figure.of("interpreter and libraries", "s", bare),
        Figure.of("coordinator listens", "s", [_listens_s(out) for _ in range(REPEATS)], target=MAX_START_S, **about),
        Figure.of("client says hello", "s", [_hello_s(out) for _ in range(REPEATS)], **about),
    ]


def _bare_start_s() -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-I", "-c", BASE_IMPORTS], check=True, timeout=TIMEOUT_S)
    return time.monotonic() - started


def _listens_s(out: Path) -> float:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = out / "run.toml"
    init(out / "keys")
    config.write_text(f'[run]\ndir = "{out}"\n[transport]\nbind = "127.0.0.1:{port}"\nkeys = "{out}/keys"\n')
    command = ["coordinator", "serve", "--config", str(config)]
    return _time_until(command, lambda: _accepts(port))


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def _hello_s(out: Path) -> float:
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    own = make_pair()
    router.curve_server, router.curve_secretkey = True, bytes.fromhex(own.secret)
    port = router.bind_to_random_port("tcp://127.0.0.1")
    config = out / "client.toml"
    keep_secret(out / "client.secret")
    config.write_text(
        f'[client]\nid = "bench"\ndir = "{out}"\nkey = "{out}/client.secret"\n[data]\nindex = 0\n'
        f'[coordinator]\naddress = "127.0.0.1:{port}"\npublic_key = "{own.public}"\n'
    )
    took_s = _time_until(["edge_client", "run", "--config", str(config)], lambda: bool(router.poll(1)))
    message, _ = decode(router.recv_multipart()[1:])
    assert isinstance(message, Hello)
    context.destroy(linger=0)
    return took_s


def _time_until(command: Sequence[str], is_there: Callable[[], bool]) -> float:
    """Return how long a process of ours takes until something is there, and end the process."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not is_there():
            if process.poll() is not None or time.monotonic() - started > TIMEOUT_S:
                raise job.JobError(f"{' '.join(command)}: not there after {time.monotonic() - started:.1f} s")
            time.sleep(0.001)
        return time.monotonic() - started
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)
