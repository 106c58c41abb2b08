"""One run of a contender, and what its processes took: time, memory and processor time, by side."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import msgspec
import psutil

from tests.benchmarks.peers.contender import SERVER, Contender
from tests.benchmarks.peers.processes import Side

SIDES: tuple[Side, ...] = ("server", "client")

SAMPLE_S = 0.25
"""How often memory is looked at; more often would slow the rounds down."""


class Measured(msgspec.Struct, frozen=True, tag=True):
    """What was seen. Memory is resident, the largest sum over a side's processes; CPU of a client's, in the mean."""

    num_rounds: int
    round_ms: float
    round_p95_ms: float
    coordination_ms: float | None
    first_round_s: float
    server_mib: float
    client_mib: float
    client_cpu_s: float


def measure(contender: Contender, patience_s: float) -> Measured:
    """Return what a whole run took, or as many of its rounds as were over in time; `PeerError` if none was."""
    with contender:
        return _measured(contender, patience_s)


def _measured(contender: Contender, patience_s: float) -> Measured:
    num_clients = contender.setting.num_clients
    started = time.monotonic()
    contender.start()
    contender.processes.until(contender.num_closed, "a first round", patience_s, SERVER)
    first_round_s = time.monotonic() - started
    client_cpu_s = _cpu_s(contender) / num_clients
    peaks = _resident_mib(contender)
    while contender.num_closed() < contender.setting.num_rounds and time.monotonic() - started < patience_s:
        time.sleep(SAMPLE_S)
        now = _resident_mib(contender)
        peaks = {side: max(peaks[side], now[side]) for side in SIDES}
    rounds = contender.rounds()
    return Measured(
        num_rounds=rounds.num,
        round_ms=rounds.median_ms,
        round_p95_ms=rounds.p95_ms,
        coordination_ms=rounds.coordination_ms,
        first_round_s=first_round_s,
        server_mib=peaks["server"],
        client_mib=peaks["client"] / num_clients,
        client_cpu_s=client_cpu_s,
    )


def _resident_mib(contender: Contender) -> dict[Side, float]:
    return {side: _sum(contender, side, lambda each: each.memory_info().rss / 2**20) for side in SIDES}


def _cpu_s(contender: Contender) -> float:
    """Return the processor time of all clients, with that of their processes that are over."""
    return _sum(contender, "client", lambda each: sum(each.cpu_times()[:4]))


def _sum(contender: Contender, side: Side, read: Callable[[psutil.Process], float]) -> float:
    total = 0.0
    for process in contender.processes.of(side):
        with contextlib.suppress(psutil.Error):
            total += read(process)
    return total
