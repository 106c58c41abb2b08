"""What must be known beside the figures: who was compared, how, and what does not compare."""

from __future__ import annotations

from tests.benchmarks.peers import kills, plan
from tests.benchmarks.peers.installed import version_of
from tests.benchmarks.peers.measured import SAMPLE_S

PACKAGES = ("protoedge", "flwr", "grpcio")


def about() -> list[str]:
    """Return a paragraph for each of these."""
    return [_setting(), _PEERS, _NOT_COMPARABLE, _counted()]


def _setting() -> str:
    versions = ", ".join(f"{package} {version_of(package)}" for package in PACKAGES)
    return (
        f"{versions}. All on loopback of one machine, contenders in turn: once each, and with {plan.SMALLEST} and "
        f"fewer than {plan.MANY_CLIENTS} clients {plan.TURNS} times, of which the median counts (a SuperLink once). "
        "Clients compute nothing and send one array of float32, another one each time; the server averages them and "
        "sends the mean. `ours` is plain with the store on disk, `ours, in memory` plain without, `ours, CURVE` "
        "encrypted and on disk. Both peers are plain, keep nothing on disk and evaluate nothing, so `ours, in memory` "
        "is what compares with them most directly."
    )


_PEERS = (
    "`gRPC` is `start_server` and `start_client`, which Flower has deprecated in favour of `SuperLink`; it is by far "
    "the faster of the two, and the one to compare times with. `SuperLink` is Flower's deployment engine as it "
    "comes, with a SuperNode for each client. These ask for work every 3 s and start a process for each message, so "
    "even a round with the smallest payload takes seconds."
)

_NOT_COMPARABLE = (
    "A round is, for all alike, the time from the moment when a server has all results, and begins to aggregate, to "
    "the same moment of the next round, which all of them note in the same way; the first is counted from its sending."
    " What does not compare: ours, on disk, has all updates and the new state in stable storage by then. A client of "
    "ours checks what it is told to run, keeps its update until that is acknowledged and computes in a second "
    "process; a client of `gRPC` is one process that calls a function. A SuperLink holds many apps at a time and sends "
    "them to its SuperNodes. Only ours was also run encrypted."
)


def _counted() -> str:
    return (
        "Bytes are TCP's payload, counted by the same proxy between clients and server for all; a round's are the "
        "difference between a long and a short run, and those of a SuperLink hold the asking for work. Memory is "
        f"what the processes of a side have resident together, the largest of what was seen every {SAMPLE_S:g} s, with "
        "the environment's files read from disk as after a boot. "
        f"After a kill rounds were waited for {kills.PATIENCE_S:g} s, and otherwise {plan.PATIENCE_S:g} s for all "
        "that were wanted: a SuperLink may have closed fewer."
    )
