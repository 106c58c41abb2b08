"""Every failure point once: whoever is killed there, the run ends as if nothing had happened."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from tests.chaos.kills import Kill, points
from tests.chaos.supervisor import Supervisor, see_nothing_lost
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import until
from tests.integration.served_run import client_id

FILED = 70_000
"""With so many features an update is a file beside the store."""

IN_DEFAULT = {"store.committed", "update.accepted", "half.answered", "uplink.sent", "state.saved", "run.over"}
"""One of each kind runs with the default tests; the others with `make chaos`."""

BY_WAITING = {"ack.sent"}
"""An update is acknowledged only if its client does not get its next task soon."""

EVERY_POINT = [
    pytest.param(Kill(process, point), id=f"{process}-{point}", marks=[] if point in IN_DEFAULT else pytest.mark.chaos)
    for process, kind in (
        ("coordinator", "coordinator"),
        ("aggregator", "aggregator"),
        ("client-01", "client"),
        ("trainer-01", "trainer"),
    )
    for point in points(kind)
]


@contextlib.contextmanager
def opened_after(kill: Kill, pairs: PairsRun, supervisor: Supervisor) -> Iterator[None]:
    """Hold a client up until the kill has happened, where only waiting for one leads to the point."""
    if kill.point not in BY_WAITING:
        yield
        return
    pairs.gates.shut(client_id(0))

    def open_later() -> None:
        until(lambda: not supervisor.tickets.left, f"killed at {kill.point}")
        pairs.gates.open(client_id(0))

    opener = threading.Thread(target=open_later)
    opener.start()
    yield
    opener.join()


@pytest.mark.parametrize("kill", EVERY_POINT)
def test_a_kill_changes_nothing(pairs: PairsRun, kill: Kill) -> None:
    pairs.configure(model={"feature_dim": FILED})
    supervisor = Supervisor(pairs, [kill])
    with opened_after(kill, pairs, supervisor):
        ended = supervisor.finish()
    assert supervisor.tickets.left == []
    assert ended.summary["global_hash"] == pairs.undisturbed_hashes()
    see_nothing_lost(ended, num_exchanges=2)
