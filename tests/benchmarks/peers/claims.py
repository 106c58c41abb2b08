"""What this runtime sets out to be beside its peers, and whether it is."""

from __future__ import annotations

from collections.abc import Mapping

from tests.benchmarks.figure import shown_number
from tests.benchmarks.peers import kills
from tests.benchmarks.peers.grpc import Grpc
from tests.benchmarks.peers.measured import Measured
from tests.benchmarks.peers.notebook import Missing
from tests.benchmarks.peers.ours import Ours, OursInMemory, OursWithCurve
from tests.benchmarks.peers.payloads import PAYLOADS
from tests.benchmarks.peers.plan import LARGEST, SMALLEST
from tests.benchmarks.peers.seen import Seen
from tests.benchmarks.peers.superlink import SuperLink, SuperLinkOnDisk
from tests.benchmarks.result import Claim

FASTER = {2: 2.0, 8: 2.0, 20: 3.0}
"""How many times as fast a round must be in memory, by number of clients."""

FASTER_LARGE = 1.5
MAX_GROWTH = 1.25
"""Of the server side's memory over all numbers of clients, to be called independent of them."""

MAX_CURVE_BYTES = 400
"""Both ways, beside the payload."""

MAX_SERVER_MIB, MAX_CLIENT_MIB, MAX_CLIENT_CPU_S = 90.0, 80.0, 0.7
MAX_RESTART_S = 3.0
LATE_S = 2.0
"""How much later than its deadline a round may be seen to close."""


def claims(seen: Seen) -> list[Claim]:
    """Return all of them."""
    as_fast = dict.fromkeys(FASTER, 1.0)
    large = dict.fromkeys(seen.clients, FASTER_LARGE)
    return [
        _faster(
            seen,
            "in memory at least 2 times as fast as gRPC, with 20 clients 3 times",
            OursInMemory.name,
            SMALLEST,
            FASTER,
        ),
        _faster(seen, "with CURVE and on disk faster than gRPC", OursWithCurve.name, SMALLEST, as_fast),
        _faster(seen, f"in memory at least {FASTER_LARGE:g} times as fast as gRPC", OursInMemory.name, LARGEST, large),
        _flat(seen),
        _plain_bytes(seen),
        _curve_bytes(seen),
        _under(seen, "memory of the server side, in MiB", "server_mib", MAX_SERVER_MIB),
        _under(seen, "memory of a client without torch, in MiB", "client_mib", MAX_CLIENT_MIB),
        _under(
            seen, "processor time of a client until the first round is over, in s", "client_cpu_s", MAX_CLIENT_CPU_S
        ),
        _server_killed(seen),
        _client_killed(seen),
    ]


def _faster(seen: Seen, text: str, own: str, payload: str, factors: Mapping[int, float]) -> Claim:
    """Compare whole rounds; what our own summary calls coordination, another median, stands beside."""
    held, told = [], []
    for num, factor in factors.items():
        mine, peer = seen.run(own, num, payload), seen.run(Grpc.name, num, payload)
        if isinstance(mine, Missing) or isinstance(peer, Missing):
            continue
        held.append(peer.round_ms >= factor * mine.round_ms)
        beside = f" (coordination by its summary {mine.coordination_ms:.3g})" if mine.coordination_ms else ""
        ratio = peer.round_ms / mine.round_ms
        told.append(f"{num} clients: {ratio:.2f} times, {peer.round_ms:.3g} ms to {mine.round_ms:.3g}{beside}")
    holds = False if not all(held) else True if len(held) == len(factors) else None
    return Claim(f"{payload}: rounds are {text}", holds, "; ".join(told) or "not measured")


def _flat(seen: Seen) -> Claim:
    text = f"{LARGEST} parameters, on disk: memory of the server side does not grow with the number of clients"
    mine, peer = (_server_mib(seen, name) for name in (Ours.name, Grpc.name))
    told = f"in MiB {_by_number(mine)}; gRPC: {_by_number(peer)}" if mine else "not measured"
    return Claim(text, max(mine.values()) <= MAX_GROWTH * min(mine.values()) if len(mine) > 1 else None, told)


def _server_mib(seen: Seen, name: str) -> dict[int, float]:
    runs = {num: seen.run(name, num, LARGEST) for num in seen.clients}
    return {num: run.server_mib for num, run in runs.items() if isinstance(run, Measured)}


def _by_number(found: Mapping[int, float]) -> str:
    return ", ".join(f"{shown_number(value)} with {num}" for num, value in found.items())


def _plain_bytes(seen: Seen) -> Claim:
    text = f"{SMALLEST}, plain: no more bytes both ways than gRPC"
    mine, peer = seen.traffic(Ours.name, SMALLEST), seen.traffic(Grpc.name, SMALLEST)
    if isinstance(mine, Missing) or isinstance(peer, Missing):
        return Claim(text, None, "not measured")
    return Claim(text, mine.both <= peer.both, f"{mine.both:.0f} to {peer.both:.0f}")


def _curve_bytes(seen: Seen) -> Claim:
    text = f"{SMALLEST}, CURVE: at most the payload and {MAX_CURVE_BYTES} bytes, both ways"
    mine = seen.traffic(OursWithCurve.name, SMALLEST)
    if isinstance(mine, Missing):
        return Claim(text, None, "not measured")
    beside = mine.both - 2 * PAYLOADS[SMALLEST].num_bytes
    return Claim(text, beside <= MAX_CURVE_BYTES, f"{beside:.0f} beside the payload")


def _under(seen: Seen, text: str, what: str, bound: float) -> Claim:
    """Compare a figure of ours, of all numbers of clients, with a bound."""
    found: dict[str, dict[int, float]] = {}
    for name in (Ours.name, Grpc.name, SuperLink.name):
        runs = {num: seen.run(name, num, SMALLEST) for num in seen.clients}
        found[name] = {num: getattr(run, what) for num, run in runs.items() if isinstance(run, Measured)}
    mine = found[Ours.name]
    told = "; ".join(f"{name}: {_by_number(values)}" for name, values in found.items() if values)
    return Claim(f"{text}: under {bound:g}", max(mine.values()) < bound if mine else None, told or "not measured")


def _server_killed(seen: Seen) -> Claim:
    text = f"after kill -9 of the coordinator a round is closed within {MAX_RESTART_S:g} s of its restart"
    found = {name: seen.server_killed(name) for name in (Ours.name, Grpc.name, SuperLink.name, SuperLinkOnDisk.name)}
    there = {name: each for name, each in found.items() if not isinstance(each, Missing)}
    after = {name: each.closed_after_s for name, each in there.items()}
    told = ", ".join(f"{name}: {_after(value, kills.PATIENCE_S)}" for name, value in after.items())
    holds = (after[Ours.name] or kills.PATIENCE_S) < MAX_RESTART_S if Ours.name in after else None
    return Claim(text, holds, told or "not measured")


def _client_killed(seen: Seen) -> Claim:
    text = f"after kill -9 of a client the round is closed at its deadline, {kills.DEADLINE_S:g} s"
    found = {name: seen.client_killed(name) for name in (Ours.name, Grpc.name, SuperLink.name)}
    waits = {name: each.stall_s for name, each in found.items() if not isinstance(each, Missing)}
    told = ", ".join(f"{name}: {_after(value, kills.PATIENCE_S)}" for name, value in waits.items())
    holds = (waits[Ours.name] or kills.PATIENCE_S) < kills.DEADLINE_S + LATE_S if Ours.name in waits else None
    return Claim(text, holds, told or "not measured")


def _after(seconds: float | None, patience_s: float) -> str:
    return f"never in {patience_s:g} s" if seconds is None else f"{seconds:.2f} s"
