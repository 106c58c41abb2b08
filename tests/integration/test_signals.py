"""A signal ends a daemon within five seconds, with the documented code and without a traceback, whatever it does."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator

import pytest

from tests.integration.pairs_run import PairsRun, client_id
from tests.integration.processes import END_S, Process, Processes, until
from wire.exit_codes import ExitCode

SIGNALS = [signal.SIGTERM, signal.SIGINT]

FIRST, SECOND = client_id(0), client_id(1)


def see_it_end(process: Process, number: signal.Signals) -> None:
    assert process.stop(number) == ExitCode.INTERRUPTED
    assert f"stopped by {number.name}" in process.said
    assert "Traceback" not in process.said


@contextlib.contextmanager
def mute_listener() -> Iterator[socket.socket]:
    """Listen as a coordinator that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(END_S)
        yield listener


@pytest.mark.parametrize("number", SIGNALS)
def test_a_client_without_a_coordinator(pairs: PairsRun, number: signal.Signals) -> None:
    with mute_listener() as listener:
        nobody = "{}:{}".format(*listener.getsockname())
    client = pairs.client(0, nobody)
    client.hear("no connection to the coordinator")
    see_it_end(client, number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_client_that_joins(pairs: PairsRun, number: signal.Signals) -> None:
    with mute_listener() as listener:
        client = pairs.client(0, "{}:{}".format(*listener.getsockname()))
        connection, _ = listener.accept()
        with connection:
            see_it_end(client, number)


@pytest.mark.parametrize("number", SIGNALS)
def test_an_idle_client_and_a_waiting_coordinator(pairs: PairsRun, number: signal.Signals) -> None:
    coordinator, (client,) = pairs.serve_all(0)
    coordinator.hear("waiting for clients 1/2")
    see_it_end(client, number)
    coordinator.hear(f"{FIRST} is gone: it left: stopped by {number.name}")
    see_it_end(coordinator, number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_client_that_trains_and_a_collecting_coordinator(pairs: PairsRun, number: signal.Signals) -> None:
    pairs.gates.shut(FIRST, SECOND, how="spin")
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST, SECOND)
    see_it_end(clients[0], number)
    see_it_end(coordinator, number)
    assert clients[1].wait(END_S) == ExitCode.INTERRUPTED
    assert "the run is over: interrupted" in clients[1].said


@pytest.mark.parametrize("number", SIGNALS)
def test_a_client_that_holds_an_uplink_for_a_frozen_coordinator(pairs: PairsRun, number: signal.Signals) -> None:
    pairs.gates.shut(FIRST)
    coordinator, (client, _) = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST)
    coordinator.send(signal.SIGSTOP)
    pairs.gates.open(FIRST)
    until((pairs.folder / "state" / FIRST / "uplink-1.safetensors").exists, "the uplink is made")
    see_it_end(client, number)


@pytest.mark.parametrize("number", SIGNALS)
def test_an_aggregating_coordinator(pairs: PairsRun, number: signal.Signals) -> None:
    pairs.gates.shut("server-echoes", how="spin")
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see("server-echoes")
    see_it_end(coordinator, number)
    assert [client.wait(END_S) for client in clients] == [ExitCode.INTERRUPTED] * 2
    assert coordinator.summary["rounds_completed"] == 0


def test_an_aggregating_coordinator_with_a_frozen_client(pairs: PairsRun) -> None:
    pairs.gates.shut("server-echoes", how="spin")
    coordinator, (_, frozen) = pairs.serve_all(0, 1)
    pairs.gates.see("server-echoes")
    frozen.send(signal.SIGSTOP)
    see_it_end(coordinator, signal.SIGTERM)
    assert f"no goodbye from {SECOND}" in coordinator.said


def test_loopback_takes_its_clients_along(pairs: PairsRun, processes: Processes) -> None:
    pairs.gates.shut(FIRST, SECOND, how="spin")
    run = pairs.loopback()
    pairs.gates.see(FIRST, SECOND)
    see_it_end(run, signal.SIGINT)
    processes.see_none_left()
    assert run.printed[0] == run.printed[-1]


def test_loopback_with_a_frozen_client_and_an_impatient_user(pairs: PairsRun, processes: Processes) -> None:
    pairs.gates.shut(FIRST, SECOND)
    run = pairs.loopback()
    pairs.gates.see(FIRST, SECOND)
    run.child("edge_client").send_signal(signal.SIGSTOP)
    run.send(signal.SIGINT)
    run.hear("no goodbye")
    see_it_end(run, signal.SIGINT)
    processes.see_none_left()


def test_a_killed_loopback_leaves_nothing_behind(pairs: PairsRun, processes: Processes) -> None:
    pairs.gates.shut(FIRST, SECOND, how="spin")
    run = pairs.loopback()
    pairs.gates.see(FIRST, SECOND)
    assert len(processes.left()) == 6  # the coordinator, its aggregator, and two clients with a trainer each
    run.kill()
    processes.see_none_left()


def test_a_killed_loopback_that_just_starts_leaves_nothing_behind(pairs: PairsRun, processes: Processes) -> None:
    run = pairs.loopback()
    run.child("edge_client")
    run.kill()
    processes.see_none_left()
