"""Bad links, and clients that fall behind: who is counted is recorded, and what came out follows from the record."""

from __future__ import annotations

import signal
import time

import pytest

from tests.chaos.kills import draw_kills
from tests.chaos.netns import own_loopback, slow_loopback, tcp_payload_bytes
from tests.chaos.supervisor import NUM_CLIENTS, Supervisor
from tests.integration.pairs_run import PairsRun, counted_in
from tests.integration.processes import until
from tests.integration.proxy import Proxy
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

FIRST, SECOND = client_id(0), client_id(1)


@pytest.mark.chaos
def test_a_link_that_comes_and_goes_changes_nothing(pairs: PairsRun) -> None:
    pairs.configure(run={"num_rounds": 8})
    coordinator = pairs.serve()
    with Proxy(coordinator.address) as proxy:
        clients = [pairs.client(index, proxy.address) for index in range(NUM_CLIENTS)]
        while coordinator.poll() is None:
            proxy.cut()
            time.sleep(0.4)
        assert coordinator.poll() == ExitCode.FINISHED, coordinator.said
        for client in clients:  # one whose link was cut at the end has not heard of it
            if client.poll() is None:
                client.stop()
    assert proxy.num_connections > 2 * NUM_CLIENTS
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


@pytest.mark.chaos
def test_a_client_that_is_frozen_past_two_deadlines_is_counted_again(pairs: PairsRun) -> None:
    pairs.configure(run={"num_rounds": 12}, round={"deadline_s": 1.0, "min_clients": 1, "min_available_clients": 2})
    pairs.gates.shut(FIRST, SECOND)
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST)
    clients[0].send(signal.SIGSTOP)
    clients.append(pairs.client(2, coordinator.address))
    until(lambda: len(coordinator.rounds) == 2, "two rounds were closed without it")
    pairs.gates.open(FIRST)
    clients[0].send(signal.SIGCONT)
    coordinator.hear(f"{FIRST} joined", times=2)
    pairs.gates.open(SECOND)
    assert coordinator.wait() == ExitCode.FINISHED
    counted = counted_in(coordinator)
    assert not any(0 in round.echoes for round in counted[:2] if round)
    assert counted[-1] is not None
    assert 0 in counted[-1].echoes
    assert coordinator.summary["global_hash"] == pairs.expected_hashes(counted)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.chaos) for seed in range(1, 10))])
def test_with_a_quorum_the_record_says_who_was_counted(pairs: PairsRun, seed: int) -> None:
    """Deadlines are shorter than a restart, so a killed client is missed, and no two runs need be alike."""
    pairs.configure(run={"num_rounds": 6}, round={"deadline_s": 0.5, "min_clients": 2})
    ended = Supervisor(pairs, draw_kills(seed, NUM_CLIENTS)).finish()
    assert ended.summary["global_hash"] == pairs.expected_hashes(counted_in(ended))


@pytest.mark.slow
def test_a_rolling_restart_changes_nothing(pairs: PairsRun) -> None:
    """Every process is stopped in order and started again, one after the other."""
    pairs.configure(run={"num_rounds": 3})
    gates = [client_id(index) for index in range(NUM_CLIENTS)]
    pairs.gates.shut(*gates)
    coordinator = pairs.serve()
    clients = [pairs.client(index, coordinator.address, stays=True) for index in range(NUM_CLIENTS)]
    pairs.gates.see(*gates)
    for index, client in enumerate(clients):
        assert client.stop() == ExitCode.INTERRUPTED
        clients[index] = pairs.client(index, coordinator.address, stays=True)
        coordinator.hear(f"{client_id(index)} joined", times=2)
    assert coordinator.stop() == ExitCode.INTERRUPTED
    resumed = pairs.resume(coordinator)
    pairs.gates.open(*gates)
    assert resumed.wait() == ExitCode.FINISHED, resumed.said
    assert [client.stop() for client in clients] == [ExitCode.INTERRUPTED] * NUM_CLIENTS
    assert resumed.summary["global_hash"] == pairs.undisturbed_hashes()
    assert resumed.summary["updates"]["accepted"] == 2 * NUM_CLIENTS * 3


@pytest.mark.chaos
@pytest.mark.parametrize("feature_dim", [8, 100_000], ids=["small", "large"])
def test_a_slow_link_is_no_dead_one(pairs: PairsRun, feature_dim: int) -> None:
    """A large update takes many seconds, and all that time nothing else comes through: far more than two heartbeats.

    Where several connections fill a link, TCP leaves one alone for up to some seconds, which is silence indeed.
    """
    pairs.configure(model={"feature_dim": feature_dim}, run={"num_rounds": 1}, transport={"heartbeat_s": 1.5})
    with slow_loopback("1mbit"):
        coordinator, clients = pairs.serve_all(*range(NUM_CLIENTS))
        assert coordinator.wait(60.0) == ExitCode.FINISHED, coordinator.said
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * NUM_CLIENTS
    assert "is gone: silent" not in coordinator.said
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


@pytest.mark.slow
def test_a_tunnel_that_takes_in_an_update_at_once_is_no_dead_link(pairs: PairsRun) -> None:
    """Nothing moves at the client for longer than two heartbeats, and its pings wait behind its update."""
    pairs.configure(model={"feature_dim": 100_000}, run={"num_rounds": 1}, transport={"heartbeat_s": 1.0})
    coordinator = pairs.serve()
    with Proxy(coordinator.address, up_bytes_per_s=150_000) as tunnel:
        clients = [pairs.client(index, coordinator.address) for index in range(1, NUM_CLIENTS)]
        clients.append(pairs.client(0, tunnel.address))
        assert coordinator.wait(60.0) == ExitCode.FINISHED, coordinator.said
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * NUM_CLIENTS
    assert tunnel.num_connections == 1
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


@pytest.mark.chaos
def test_a_client_keeps_its_id_while_a_long_update_holds_up_its_answer(pairs: PairsRun) -> None:
    pairs.configure(model={"feature_dim": 100_000}, run={"num_rounds": 1}, transport={"heartbeat_s": 1.5})
    with slow_loopback("1mbit"):
        coordinator, clients = pairs.serve_all(*range(NUM_CLIENTS))
        until(lambda: any((pairs.folder / "state" / FIRST).rglob("uplink-0*")), "the first update is on its way")
        second = pairs.client(0, coordinator.address, name="second", client={"dir": str(pairs.folder / "elsewhere")})
        assert second.wait(60.0) == ExitCode.REFUSED
        assert "duplicate_client" in second.said
        assert coordinator.wait(60.0) == ExitCode.FINISHED, coordinator.said
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * NUM_CLIENTS
    assert f"{FIRST} is gone" not in coordinator.said
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


@pytest.mark.chaos
def test_messages_that_take_longer_than_a_deadline_are_waited_for_below_the_quorum(pairs: PairsRun) -> None:
    """The updates, and the second exchange's tasks, take some ten seconds, in which no trainer reports progress."""
    rules = {"deadline_s": 3.0, "min_clients": NUM_CLIENTS, "max_failed_rounds": 1}
    pairs.configure(model={"feature_dim": 100_000}, run={"num_rounds": 1}, round=rules)
    with slow_loopback("1mbit"):
        coordinator, clients = pairs.serve_all(*range(NUM_CLIENTS))
        assert coordinator.wait(60.0) == ExitCode.FINISHED, coordinator.said
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * NUM_CLIENTS
    assert coordinator.summary["global_hash"] == pairs.undisturbed_hashes()


@pytest.mark.chaos
def test_the_clients_bytes_are_all_that_went_over_the_interface(pairs: PairsRun) -> None:
    pairs.configure(model={"feature_dim": 2000}, run={"num_rounds": 4})
    with own_loopback():
        coordinator, clients = pairs.serve_all(*range(NUM_CLIENTS))
        assert coordinator.wait() == ExitCode.FINISHED, coordinator.said
        assert [client.wait() for client in clients] == [ExitCode.FINISHED] * NUM_CLIENTS
        went = tcp_payload_bytes()
    links = coordinator.summary["wire"]["clients"].values()
    assert len(links) == NUM_CLIENTS
    assert sum(link["up_bytes"] + link["down_bytes"] for link in links) == pytest.approx(went, rel=0.01)
