"""A link that breaks while a run is on costs a reconnect and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Coordinator, until
from tests.integration.proxy import Proxy
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

CUT, OTHER = client_id(0), client_id(1)


def test_a_client_rejoins_after_a_cut_and_is_counted_once(pairs: PairsRun) -> None:
    pairs.gates.shut(CUT)
    coordinator = pairs.serve()
    with Proxy(coordinator.address) as proxy:
        clients = [pairs.client(0, proxy.address), pairs.client(1, coordinator.address)]
        pairs.gates.see(CUT)
        proxy.cut()
        clients[0].hear(r"no connection to the coordinator at \S+: .*; trying again")
        coordinator.hear(f"{CUT} joined", times=2)
        pairs.gates.open(CUT)
        assert coordinator.wait() == ExitCode.FINISHED
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert coordinator.summary["updates"] == {"accepted": 8, "duplicate": 0, "stale": 0, "refused": 0}
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


@contextlib.contextmanager
def ack_unheard(pairs: PairsRun) -> Iterator[tuple[Proxy, Coordinator]]:
    """Run until an update is stored whose client hears nothing, and the other's is still to come; see how it ends."""
    pairs.configure(transport={"heartbeat_s": 5.0})
    pairs.gates.shut(CUT, OTHER)
    coordinator = pairs.serve()
    with Proxy(coordinator.address) as proxy:
        clients = [pairs.client(0, proxy.address), pairs.client(1, coordinator.address)]
        pairs.gates.see(CUT, OTHER)
        proxy.mute_coordinator()
        pairs.gates.open(CUT)
        until(lambda: coordinator.num_stored(exchange=1) == 1, "the update is stored")
        yield proxy, coordinator
        assert coordinator.wait() == ExitCode.FINISHED
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert coordinator.summary["updates"] == {"accepted": 8, "duplicate": 1, "stale": 0, "refused": 0}
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()
    assert "refused" not in clients[0].said


def test_an_update_whose_ack_is_lost_is_sent_again_and_counted_once(pairs: PairsRun) -> None:
    with ack_unheard(pairs) as (proxy, coordinator):
        proxy.cut()
        coordinator.hear(f"{CUT} joined", times=2)
        pairs.gates.open(OTHER)


def test_an_update_that_comes_again_after_its_exchange_has_closed_is_not_late(pairs: PairsRun) -> None:
    with ack_unheard(pairs) as (proxy, coordinator):
        pairs.gates.open(OTHER)
        coordinator.hear(r"\[ROUND 1/2\]")
        proxy.cut()
    coordinator.hear(r"\[ROUND 2/2\] ok=2 failed=0 late=0")


def test_a_silent_link_is_given_up_and_made_anew(pairs: PairsRun) -> None:
    """Nothing comes through and nobody says that the link is gone."""
    pairs.gates.shut(CUT)
    coordinator = pairs.serve()
    with Proxy(coordinator.address) as proxy:
        clients = [pairs.client(0, proxy.address), pairs.client(1, coordinator.address)]
        pairs.gates.see(CUT)
        proxy.mute_coordinator()
        clients[0].hear("the coordinator is silent; trying again")
        proxy.cut()
        coordinator.hear(f"{CUT} joined", times=2)
        pairs.gates.open(CUT)
        assert coordinator.wait() == ExitCode.FINISHED
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert coordinator.summary["updates"]["accepted"] == 8
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()
