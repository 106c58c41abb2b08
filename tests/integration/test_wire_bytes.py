"""The kernel's count of bytes on the wire, against an outside counter, over cuts and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Coordinator, until
from tests.integration.proxy import Proxy
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

CUT, OTHER = client_id(0), client_id(1)


def links_of(coordinator: Coordinator) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = coordinator.summary["wire"]["clients"]
    return found


@pytest.mark.parametrize("security", ["curve", pytest.param("none", marks=pytest.mark.slow)])
def test_bytes_on_the_wire_are_those_of_an_outside_counter(pairs: PairsRun, security: str) -> None:
    """Over a cut of both links, an acknowledgement that is lost, and an update that is sent again."""
    pairs.configure(transport={"security": security, "heartbeat_s": 5.0})
    pairs.gates.shut(CUT, OTHER)
    coordinator = pairs.serve()
    with Proxy(coordinator.address) as proxy:
        clients = [pairs.client(index, proxy.address, coordinator={"security": security}) for index in range(2)]
        pairs.gates.see(CUT, OTHER)
        proxy.mute_coordinator()
        pairs.gates.open(CUT)
        until(lambda: coordinator.num_stored(exchange=1) == 1, "the update is stored")
        proxy.cut()
        for client in (CUT, OTHER):
            coordinator.hear(f"{client} joined", times=2)
        pairs.gates.open(OTHER)
        assert coordinator.wait() == ExitCode.FINISHED
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
        outside = (proxy.num_bytes_up, proxy.num_bytes_down)
    summary = coordinator.summary
    assert summary["updates"]["duplicate"] == 1
    assert summary["wire"]["source"] == "kernel"
    assert (summary["uplink"]["wire_bytes"], summary["downlink"]["wire_bytes"]) == pytest.approx(outside, rel=0.01)
    for link in links_of(coordinator).values():
        assert link["num_connections"] == 2
        assert link["own_up_bytes"] == pytest.approx(link["up_bytes"], rel=0.01)
        assert link["own_down_bytes"] + link["down_difference_bytes"] == link["down_bytes"]


@pytest.mark.slow
def test_after_a_kill_counts_go_on_from_what_is_stored(pairs: PairsRun) -> None:
    """What the kernel counted of the exchange in hand died with the coordinator, and is computed."""
    pairs.gates.shut(OTHER)
    coordinator = pairs.serve()
    with Proxy(coordinator.address) as proxy:
        clients = [pairs.client(index, proxy.address) for index in range(2)]
        pairs.gates.see(OTHER)
        until(lambda: coordinator.num_stored(exchange=1) == 1, "the update is stored")
        coordinator.kill()
        resumed = pairs.resume(coordinator)
        resumed.hear(f"{OTHER} joined")
        pairs.gates.open(OTHER)
        assert resumed.wait() == ExitCode.FINISHED, resumed.said
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
        outside = (proxy.num_bytes_up, proxy.num_bytes_down)
    summary = resumed.summary
    assert summary["wire"]["source"] == "both"
    assert (summary["uplink"]["wire_bytes"], summary["downlink"]["wire_bytes"]) == pytest.approx(outside, rel=0.05)
    assert all(link["num_connections"] == 2 for link in links_of(resumed).values())
