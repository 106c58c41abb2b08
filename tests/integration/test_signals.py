"""A signal ends a daemon within five seconds, with the documented code and without a traceback, whatever it does."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator, Sequence

import pytest

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import END_S, Coordinator, Process, Processes, until
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

SIGNALS = (signal.SIGTERM, signal.SIGINT)

FIRST, SECOND, THIRD = client_id(0), client_id(1), client_id(2)


def see_it_end(process: Process, number: signal.Signals) -> None:
    assert process.stop(number) == ExitCode.INTERRUPTED
    assert f"stopped by {number.name}" in process.said
    assert "Traceback" not in process.said


def see_both_end(processes: Sequence[Process]) -> None:
    """End one by SIGTERM and one by SIGINT."""
    for process, number in zip(processes, SIGNALS, strict=True):
        see_it_end(process, number)


@contextlib.contextmanager
def mute_listener() -> Iterator[socket.socket]:
    """Listen as a coordinator that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(END_S)
        yield listener


def test_clients_without_a_coordinator(pairs: PairsRun) -> None:
    with mute_listener() as listener:
        nobody = "{}:{}".format(*listener.getsockname())
    clients = [pairs.client(index, nobody) for index in range(2)]
    for client in clients:
        client.hear("no connection to the coordinator")
    see_both_end(clients)


def test_joining_clients(pairs: PairsRun) -> None:
    with mute_listener() as listener:
        clients = [pairs.client(index, "{}:{}".format(*listener.getsockname())) for index in range(2)]
        with listener.accept()[0], listener.accept()[0]:
            see_both_end(clients)


def test_idle_clients_and_waiting_coordinators(pairs: PairsRun) -> None:
    """What they wait for is said within five seconds."""
    pairs.configure(data={"num_clients": 3})
    coordinators = [pairs.serve(), pairs.serve(name="another")]
    clients = [pairs.client(index, coordinators[0].address) for index in range(2)]
    coordinators[0].hear(r"waiting for clients 2/3 \(min_available_clients\)", within_s=END_S)
    coordinators[1].hear(r"waiting for clients 0/3 \(min_available_clients\)", within_s=END_S)
    see_both_end(clients)
    coordinators[0].hear(f"{FIRST} is gone: it left: stopped by SIGTERM")
    coordinators[0].hear(f"{SECOND} is gone: it left: stopped by SIGINT")
    see_both_end(coordinators)


def test_training_clients_and_a_collecting_coordinator(pairs: PairsRun) -> None:
    pairs.configure(data={"num_clients": 3})
    pairs.gates.shut(FIRST, SECOND, THIRD, how="spin")
    coordinator, clients = pairs.serve_all(0, 1, 2)
    pairs.gates.see(FIRST, SECOND, THIRD)
    see_both_end(clients[:2])
    see_it_end(coordinator, signal.SIGTERM)
    assert clients[2].wait(END_S) == ExitCode.INTERRUPTED
    assert "the run is over: interrupted (stopped by SIGTERM)" in clients[2].said


def test_clients_that_hold_uplinks_for_a_frozen_coordinator(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST, SECOND)
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST, SECOND)
    coordinator.send(signal.SIGSTOP)
    pairs.gates.open(FIRST, SECOND)
    until(lambda: pairs.has_made_uplink(FIRST) and pairs.has_made_uplink(SECOND), "the uplinks are made")
    see_both_end(clients)
    coordinator.send(signal.SIGCONT)
    see_it_end(coordinator, signal.SIGINT)


def test_a_coordinator_and_a_client_whose_terminal_is_gone(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST, SECOND)
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST, SECOND)
    see_it_end(clients[0], signal.SIGHUP)
    see_it_end(coordinator, signal.SIGHUP)
    assert clients[1].wait(END_S) == ExitCode.INTERRUPTED
    assert coordinator.summary["outcome"] == "interrupted"


def test_an_aggregating_coordinator(pairs: PairsRun) -> None:
    pairs.gates.shut("server-echoes", how="spin")
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see("server-echoes")
    see_it_end(coordinator, signal.SIGTERM)
    assert [client.wait(END_S) for client in clients] == [ExitCode.INTERRUPTED] * 2
    assert coordinator.summary["rounds_completed"] == 0


def test_an_aggregating_coordinator_with_a_frozen_client(pairs: PairsRun) -> None:
    pairs.gates.shut("server-echoes", how="spin")
    coordinator, (_, frozen) = pairs.serve_all(0, 1)
    pairs.gates.see("server-echoes")
    frozen.send(signal.SIGSTOP)
    see_it_end(coordinator, signal.SIGINT)
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

    def ended() -> bool:
        run.send(signal.SIGINT)
        return run.ended

    until(ended, "it ends", END_S)
    see_it_end(run, signal.SIGINT)
    processes.see_none_left()


def see_it_resume(pairs: PairsRun, run: Coordinator) -> None:
    """Have an interrupted simulation go on, to the arrays of one that was left alone."""
    resumed = pairs.processes.coordinator("simulate", "--resume", run.folder, name="resumed")
    assert resumed.wait() == ExitCode.FINISHED
    assert resumed.summary["global_hash"] == pairs.undisturbed_hashes()


def test_a_simulation_whose_client_trains(pairs: PairsRun) -> None:
    pairs.gates.shut(SECOND, how="report")
    run = pairs.simulate()
    pairs.gates.see(SECOND)
    see_it_end(run, signal.SIGTERM)
    assert run.summary["rounds_completed"] == 0
    pairs.gates.open(SECOND)
    see_it_resume(pairs, run)


@pytest.mark.slow
@pytest.mark.parametrize("who", [SECOND, "server-echoes"])
def test_a_simulation_that_reports_no_progress(pairs: PairsRun, who: str) -> None:
    pairs.gates.shut(who)
    run = pairs.simulate()
    pairs.gates.see(who)
    see_it_end(run, signal.SIGINT)
    pairs.gates.open(who)
    see_it_resume(pairs, run)


@pytest.mark.slow
def test_a_simulation_takes_its_jobs_along(pairs: PairsRun, processes: Processes) -> None:
    pairs.gates.shut(FIRST, SECOND, how="spin")
    run = pairs.simulate("--jobs", "2")
    pairs.gates.see(FIRST, SECOND)
    see_it_end(run, signal.SIGTERM)
    processes.see_none_left()
    pairs.gates.open(FIRST, SECOND)
    see_it_resume(pairs, run)


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
