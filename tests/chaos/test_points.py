"""Every failure point once: whoever is killed there, the run ends as if nothing had happened."""

from __future__ import annotations

import pytest

from tests.chaos.kills import Kill, points
from tests.chaos.supervisor import Supervisor, see_nothing_lost
from tests.integration.pairs_run import PairsRun

FILED = 70_000
"""With so many features an update is a file beside the store."""

IN_DEFAULT = {"store.committed", "update.accepted", "half.answered", "uplink.sent", "state.saved", "run.over"}
"""One of each kind runs with the default tests; the others with `make chaos`."""

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


@pytest.mark.parametrize("kill", EVERY_POINT)
def test_a_kill_changes_nothing(pairs: PairsRun, kill: Kill) -> None:
    pairs.configure(model={"feature_dim": FILED})
    supervisor = Supervisor(pairs, [kill])
    ended = supervisor.finish()
    assert supervisor.tickets.left == []
    assert ended.summary["global_hash"] == pairs.undisturbed_hashes()
    see_nothing_lost(ended, num_exchanges=2)
