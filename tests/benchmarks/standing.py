"""A coordinator that stands: from `submit` to the first downlink, and what a client costs that waits for a run."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import tomli_w

from coordinator import client_api
from tests.benchmarks import job
from tests.benchmarks.figure import Figure
from tests.integration.keyring import Keyring
from tests.integration.raw_client import RawClient
from wire.messages import Finish, Goodbye, Hello, Ready, Standby, Task, Welcome
from wire.version import PROTOCOL_VERSION

NUM_CLIENTS = 5
REPEATS = 15
IDLE_S = 60.0
PAUSE_S = 2.0
"""Between two runs, in which the service prepares for the next: nobody waits for that who submits to idle clients."""

START_S = 30.0

MAX_DOWNLINK_MS = 200.0
MAX_IDLE_BYTES_PER_S = 40.0

_PIDFD_GETFD = 438
_BYTES_ACKED = 120
"""Where `tcpi_bytes_acked` begins in Linux's `struct tcp_info`, with `tcpi_bytes_received` behind it."""


def run(out: Path) -> list[Figure]:
    """Return the time to the first downlink, and the bytes a second of a client daemon that is in no run."""
    out = Path(tempfile.mkdtemp(dir=out))  # keys, queue and state of an earlier time are of no use
    clients = [f"client-{index:02d}" for index in range(NUM_CLIENTS)]
    keyring = Keyring(out, clients)
    with _service(out, keyring) as address:
        took_ms = _first_downlinks_ms(out, address, keyring, clients)
        bytes_per_s = _idle_bytes_per_s(out, address, keyring, clients[0])
    return [
        Figure.of("submit to first downlink, clients are there", "ms", took_ms, target=MAX_DOWNLINK_MS),
        Figure.of("idle client, both directions", "B/s", [bytes_per_s], target=MAX_IDLE_BYTES_PER_S),
    ]


@contextlib.contextmanager
def _service(out: Path, keyring: Keyring) -> Iterator[str]:
    """Run a service, and yield its address."""
    settings = out / "service.toml"
    transport = {"bind": "127.0.0.1:0", "keys": str(keyring.folder)}
    service = {"dir": str(out / "service"), "plugin_dir": str(job.PLUGINS)}
    settings.write_text(tomli_w.dumps({"service": service, "transport": transport}))
    command = [sys.executable, "-I", "-m", "coordinator", "serve", "--settings", str(settings)]
    with (out / "service.log").open("w+") as log:
        process = subprocess.Popen(command, stderr=log)
        try:
            yield _address_in(out / "service.log")
        finally:
            process.terminate()
            process.wait(START_S)


def _address_in(log: Path) -> str:
    give_up_at = time.monotonic() + START_S
    while "listening on" not in (text := log.read_text()):
        if time.monotonic() > give_up_at:
            raise job.JobError(f"the service does not listen: {text}")
        time.sleep(0.01)
    return text.split("listening on ")[1].split()[0]


def _first_downlinks_ms(out: Path, address: str, keyring: Keyring, clients: list[str]) -> list[float]:
    """Submit runs to clients that have no trainer to start, and return how long each took to send its first task."""
    settings = [*job.noop_settings(out, NUM_CLIENTS, 1, "disk"), f"round.min_clients={NUM_CLIENTS}"]
    with contextlib.ExitStack() as entered:
        peers = [
            entered.enter_context(RawClient(address, client, keyring.pairs[client], keyring.coordinator.public))
            for client in clients
        ]
        for peer in peers:
            peer.send(Hello((PROTOCOL_VERSION.major, PROTOCOL_VERSION.minor), peer.client, 1))
            peer.expect(Standby)
        return [_first_downlink_ms(peers, settings, out / "service") for _ in range(REPEATS)]


def _first_downlink_ms(peers: list[RawClient], settings: list[str], service: Path) -> float:
    time.sleep(PAUSE_S)
    started = time.monotonic()
    run_id = client_api.submit(None, settings, service)
    for peer in peers:
        welcome = peer.expect(Welcome)
        counts = [job.NOOP_PER_CLASS] * len(welcome.spec["classes"])
        peer.send(Ready(welcome.run, sum(counts), 0, counts, welcome.spec["model"]["feature_dim"], 0, 0))
    peers[0].expect(Task)
    took_ms = 1000 * (time.monotonic() - started)
    cancelling = threading.Thread(target=client_api.cancel, args=(run_id, service))
    cancelling.start()
    for peer in peers:
        peer.expect(Finish)
        peer.send(Goodbye("over"))
    cancelling.join(START_S)
    return took_ms


def _idle_bytes_per_s(out: Path, address: str, keyring: Keyring, client: str) -> float:
    """Have a client daemon wait for a run, and return what the kernel counts on its connection."""
    config = out / "client.toml"
    tables = {"client": {"id": client, "dir": str(out / "state")}, "coordinator": {"address": address}}
    for table, keys in keyring.of_client(client).items():
        tables[table].update(keys)
    config.write_text(tomli_w.dumps({**tables, "data": {"index": 0}}))
    process = subprocess.Popen([sys.executable, "-I", "-m", "edge_client", "run", "--config", str(config)])
    try:
        time.sleep(5.0)  # until it has come in
        with _connection_of(process.pid) as connection:
            before = _counted_bytes(connection)
            time.sleep(IDLE_S)
            return (_counted_bytes(connection) - before) / IDLE_S
    finally:
        process.terminate()
        process.wait(START_S)


def _connection_of(pid: int) -> socket.socket:
    """Return a process's one TCP connection, borrowed from it."""
    (found,) = psutil.Process(pid).net_connections("tcp")
    descriptor = ctypes.CDLL(None).syscall(_PIDFD_GETFD, os.pidfd_open(pid), found.fd, 0)
    if descriptor < 0:
        raise job.JobError("the kernel does not lend the connection of another process")
    return socket.socket(fileno=descriptor)


def _counted_bytes(connection: socket.socket) -> int:
    """Return the payload bytes that went both ways."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKED + 16)
    return sum(struct.unpack_from("=QQ", info, _BYTES_ACKED))
