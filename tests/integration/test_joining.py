"""How clients come to a run: before the coordinator, late, twice, or with an id that is taken."""

from __future__ import annotations

import re

import pytest

from tests.integration.pairs_run import Counted, PairsRun
from tests.integration.processes import until
from tests.integration.proxy import Proxy
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode


def test_clients_may_come_before_the_coordinator_and_say_so_once(pairs: PairsRun) -> None:
    with Proxy() as proxy:
        clients = [pairs.client(index, proxy.address) for index in range(2)]
        until(lambda: proxy.num_connections >= 6, "both have tried three times")
        coordinator = pairs.serve()
        proxy.target = coordinator.address
        assert coordinator.wait() == ExitCode.FINISHED
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()
    for client in clients:
        first, second, last = client.said.splitlines()
        assert f"no connection to the coordinator at {proxy.address}: " in first
        assert f"joined run {coordinator.folder.name}" in second
        assert last.endswith("the run is over: finished")


@pytest.mark.slow
def test_a_welcome_that_is_many_slow_round_trips_away_is_waited_for(pairs: PairsRun) -> None:
    """They go to the greetings, the keys and the hello."""
    pairs.configure(run={"num_rounds": 1}, transport={"heartbeat_s": 5.0})
    coordinator = pairs.serve()
    with Proxy(coordinator.address, delay_s=0.8) as proxy:
        clients = [pairs.client(index, proxy.address) for index in range(2)]
        assert coordinator.wait(60.0) == ExitCode.FINISHED, coordinator.said
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
        assert proxy.num_connections == 2
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


def test_a_name_that_does_not_resolve_is_told_at_once(pairs: PairsRun) -> None:
    name = "x" * 64  # longer than any name may be, so nobody is asked
    client = pairs.client(0, f"{name}:7071")
    client.hear(
        f"no connection to the coordinator at {name}:7071: {name} does not resolve: no name that there could be"
    )
    assert client.stop() == ExitCode.INTERRUPTED


def test_the_second_live_client_of_an_id_is_refused_by_name(pairs: PairsRun) -> None:
    pairs.gates.shut(client_id(0))
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(client_id(0))
    second = pairs.client(0, coordinator.address, name="second", client={"dir": str(pairs.folder / "elsewhere")})
    assert second.wait() == ExitCode.REFUSED
    (line,) = second.said.splitlines()
    assert "refused by the coordinator (duplicate_client)" in line
    assert repr(client_id(0)) in line
    pairs.gates.open(client_id(0))
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert coordinator.said.count(f"{client_id(0)} joined") == 1
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


def test_a_late_client_is_counted_in_the_round_that_follows(pairs: PairsRun) -> None:
    pairs.configure(run={"num_rounds": 30}, data={"num_clients": 3}, round={"min_available_clients": 2})
    pairs.gates.shut(client_id(1))
    coordinator, _ = pairs.serve_all(0, 1)
    pairs.gates.see(client_id(1))
    pairs.client(2, coordinator.address)
    until((pairs.folder / "state" / client_id(2) / "constants").exists, "the third has what the run needs")
    coordinator.hear(f"{client_id(2)} joined")
    pairs.gates.open(client_id(1))
    assert coordinator.wait() == ExitCode.FINISHED
    counts = [int(count) for count in re.findall(r"ok=(\d)", coordinator.said)]
    assert counts[0] == 2
    assert counts[-1] == 3
    rounds = [Counted(range(count), range(count)) for count in counts]
    assert coordinator.summary["global_hash"] == pairs.expected_hashes(rounds)


def test_a_client_stays_for_the_next_run(pairs: PairsRun) -> None:
    with Proxy() as proxy:
        clients = [pairs.client(index, proxy.address, stays=True) for index in range(2)]
        for number, name in enumerate(("first", "second"), start=1):
            coordinator = pairs.serve("--set", f"run.seed={number}", name=name)
            proxy.target = coordinator.address
            assert coordinator.wait() == ExitCode.FINISHED
            assert coordinator.summary["updates"]["accepted"] == 8
            assert "no goodbye" not in coordinator.said
            clients[0].hear("the run is over: finished; waiting for the next one", times=number)
        assert [client.stop() for client in clients] == [ExitCode.INTERRUPTED] * 2
