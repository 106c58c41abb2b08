"""Bytes between clients and server, by the same TCP proxy for all; it takes time, so these runs are not timed."""

from __future__ import annotations

import time

import msgspec

from tests.benchmarks.peers.contender import SERVER, Contender
from tests.benchmarks.peers.processes import PeerError
from tests.integration.proxy import Proxy

SETTLE_S = 15.0
"""How long clients get to come in, before they count as idle."""

IDLE_S = 30.0

LAST_S = 3.0
"""How long the last messages of a run get, after its rounds, to be counted as well."""


class Traffic(msgspec.Struct, frozen=True, tag=True):
    """Of one client: bytes of a round, up and down."""

    up: float
    down: float

    @property
    def both(self) -> float:
        """The sum of the two ways."""
        return self.up + self.down


class Idle(msgspec.Struct, frozen=True, tag=True):
    """Of one client that is connected and has nothing to do: bytes a second, both ways."""

    bytes_per_s: float


def in_rounds(few: Contender, many: Contender, patience_s: float) -> Traffic:
    """Return what a round more costs: the difference between a short and a long run."""
    (up_few, down_few), (up_many, down_many) = (_total(each, patience_s) for each in (few, many))
    more = many.setting.num_rounds - few.setting.num_rounds
    return Traffic((up_many - up_few) / more, (down_many - down_few) / more)


def idle(contender: Contender) -> Idle:
    """Return what clients send and get while the server waits for more of them."""
    with contender, Proxy(f"127.0.0.1:{contender.port}") as proxy:
        contender.start(_port(proxy))
        time.sleep(SETTLE_S)
        if proxy.num_connections < contender.setting.num_clients:
            raise PeerError(f"expected {contender.setting.num_clients} connections, got {proxy.num_connections}")
        before = proxy.num_bytes_up + proxy.num_bytes_down
        time.sleep(IDLE_S)
        num_bytes = proxy.num_bytes_up + proxy.num_bytes_down - before
    return Idle(num_bytes / IDLE_S / contender.setting.num_clients)


def _total(contender: Contender, patience_s: float) -> tuple[float, float]:
    """Return the bytes of one client in a whole run, up and down."""
    setting = contender.setting
    with contender, Proxy(f"127.0.0.1:{contender.port}") as proxy:
        contender.start(_port(proxy))
        contender.processes.until(
            lambda: contender.num_closed() >= setting.num_rounds, f"{setting.num_rounds} rounds", patience_s, SERVER
        )
        time.sleep(LAST_S)
        return proxy.num_bytes_up / setting.num_clients, proxy.num_bytes_down / setting.num_clients


def _port(proxy: Proxy) -> int:
    return int(proxy.address.rpartition(":")[2])
