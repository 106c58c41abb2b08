"""A coordinator that was killed or stopped goes on with `--resume`, and nothing shows that in what comes out."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import Coordinator, Process, Processes, booked, until
from tests.integration.served_run import client_id
from tests.integration.simulated import comparable, finished, settings, simulated_here
from wire.exit_codes import ExitCode

FIRST, SECOND = client_id(0), client_id(1)


def see_it_finish(pairs: PairsRun, run: Coordinator, clients: list[Process]) -> None:
    """See a run of two clients and two rounds end as if nothing had happened."""
    assert run.wait() == ExitCode.FINISHED, run.said
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * len(clients)
    summary = run.summary
    assert summary["global_hash"] == pairs.undisturbed_hashes()
    num_rounds = len(summary["global_hash"])
    assert summary["num_rounds"] == summary["rounds_completed"] == num_rounds
    assert summary["updates"]["accepted"] == 4 * num_rounds
    assert summary["uplink"]["payload_bytes"] == summary["uplink"]["predicted_payload_bytes"] == num_rounds * 2 * 72
    assert summary["downlink"]["payload_bytes"] == num_rounds * 2 * 32
    assert summary["clients"].keys() == {FIRST, SECOND}
    lines = booked(run.folder)
    assert [line["round"] for line in lines if line["kind"] == "round"] == [*range(1, num_rounds + 1)]
    told = [(line["round"], line["exchange"], line["client"]) for line in lines if line["kind"] == "client"]
    assert len(told) == len(set(told)) == 4 * num_rounds + 2
    assert all(line["status"] == "accepted" for line in lines if line["kind"] == "client")
    assert "Traceback" not in run.said


def test_killed_with_one_of_two_updates_accepted(pairs: PairsRun) -> None:
    """The other client holds its uplink until there is a coordinator again, and its exchange is open again."""
    pairs.gates.shut(FIRST)
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST)
    until(lambda: coordinator.num_stored(exchange=1) == 1, "the other has answered")
    coordinator.kill()
    pairs.gates.open(FIRST)
    until(lambda: pairs.has_made_uplink(FIRST), "the uplink is made")
    resumed = pairs.resume(coordinator)
    see_it_finish(pairs, resumed, clients)
    assert f"{FIRST}: update refused" not in resumed.said


@pytest.mark.parametrize("exchange", ["sums", "echoes"])
def test_killed_while_aggregating(pairs: PairsRun, exchange: str) -> None:
    gate = f"server-{exchange}"
    pairs.gates.shut(gate)
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(gate)
    coordinator.kill()
    pairs.gates.open(gate)
    see_it_finish(pairs, pairs.resume(coordinator), clients)


def test_killed_before_the_first_round(pairs: PairsRun) -> None:
    coordinator, clients = pairs.serve_all(0)
    until(lambda: coordinator.stored("SELECT * FROM clients"), "the client is ready")
    coordinator.kill()
    resumed = pairs.resume(coordinator)
    clients.append(pairs.client(1, coordinator.address))
    see_it_finish(pairs, resumed, clients)


def test_killed_between_two_rounds(pairs: PairsRun) -> None:
    pairs.gates.shut("server-echoes")
    coordinator, (gone, other) = pairs.serve_all(0, 1)
    pairs.gates.see("server-echoes")
    gone.kill()
    coordinator.hear(f"{FIRST} is gone")
    pairs.gates.open("server-echoes")
    coordinator.hear(r"\[ROUND 1/2\]")
    until(lambda: coordinator.rounds, "the round is recorded")
    coordinator.kill()
    resumed = pairs.resume(coordinator)
    see_it_finish(pairs, resumed, [pairs.client(0, coordinator.address), other])


def test_killed_during_the_evaluation(pairs: PairsRun) -> None:
    pairs.configure(run={"num_rounds": 1}, transport={"heartbeat_s": 10.0})
    pairs.gates.shut("server-echoes")
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see("server-echoes")
    clients[1].send(signal.SIGSTOP)
    pairs.gates.open("server-echoes")
    until(lambda: coordinator.num_stored(exchange=2) == 1, "the other was evaluated")
    coordinator.kill()
    clients[1].send(signal.SIGCONT)
    see_it_finish(pairs, pairs.resume(coordinator), clients)


def test_killed_twice(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST, "server-echoes")
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see(FIRST)
    coordinator.kill()
    again = pairs.resume(coordinator, name="again")
    pairs.gates.open(FIRST)
    pairs.gates.see("server-echoes")
    again.kill()
    pairs.gates.open("server-echoes")
    see_it_finish(pairs, pairs.resume(coordinator), clients)


def test_large_updates_are_taken_from_their_files(pairs: PairsRun) -> None:
    pairs.configure(model={"feature_dim": 70_000}, run={"num_rounds": 1})
    pairs.gates.shut("server-echoes")
    coordinator, clients = pairs.serve_all(0, 1)
    pairs.gates.see("server-echoes")
    until(lambda: coordinator.num_stored(exchange=1) == 2, "both updates are durable")
    coordinator.kill()
    assert len(list((coordinator.folder / "store.buffers").iterdir())) == 2
    pairs.gates.open("server-echoes")
    resumed = pairs.resume(coordinator)
    assert resumed.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
    assert resumed.summary["global_hash"] == pairs.undisturbed_hashes()
    assert resumed.summary["uplink"]["payload_bytes"] == 2 * 2 * (70_000 * 4 + 4)


def test_a_stopped_coordinator_says_how_to_go_on_and_its_clients_stay_for_it(pairs: PairsRun) -> None:
    pairs.gates.shut(FIRST)
    coordinator = pairs.serve()
    clients = [pairs.client(index, coordinator.address, stays=True) for index in range(2)]
    pairs.gates.see(FIRST)
    assert coordinator.stop() == ExitCode.INTERRUPTED
    command = coordinator.hear(r"to go on: coordinator (.*)\n")[1]
    assert command == f"serve --resume {coordinator.folder.relative_to(pairs.folder)}"
    assert coordinator.summary["outcome"] == "interrupted"
    pairs.gates.open(FIRST)
    see_it_finish(pairs, pairs.resume(coordinator), [])
    assert [client.stop() for client in clients] == [ExitCode.INTERRUPTED] * 2


def test_a_run_is_stopped_by_its_folder_or_as_the_only_one_that_goes_on_here(pairs: PairsRun) -> None:
    def stop(*run: Path) -> list[str]:
        command = pairs.processes.coordinator("stop", *run, name="stop")
        assert command.wait() == ExitCode.FINISHED, command.said
        return command.printed

    pairs.gates.shut(FIRST)
    coordinator = pairs.serve()
    clients = [pairs.client(index, coordinator.address, stays=True) for index in range(2)]
    pairs.gates.see(FIRST)
    run_id = coordinator.folder.name
    assert stop() == [f"{run_id} is stopped; its outcome: interrupted"]
    assert coordinator.wait() == ExitCode.INTERRUPTED
    assert stop(coordinator.folder)[-1] == f"{run_id} was over already; its outcome: interrupted"
    pairs.gates.open(FIRST)
    see_it_finish(pairs, pairs.resume(coordinator), [])
    assert [client.stop() for client in clients] == [ExitCode.INTERRUPTED] * 2


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_loopback_goes_on_with_the_states_of_its_clients(pairs: PairsRun, how: signal.Signals) -> None:
    pairs.gates.shut(FIRST)
    run = pairs.loopback()
    pairs.gates.see(FIRST)
    run.send(how)
    run.wait()
    drawn = (run.folder / "indices.npz").stat().st_mtime_ns
    resumed = pairs.processes.coordinator("loopback", "--resume", run.folder, name="resumed")
    pairs.gates.open(FIRST)
    see_it_finish(pairs, resumed, [])
    assert (run.folder / "indices.npz").stat().st_mtime_ns == drawn


@pytest.mark.slow
def test_nets_and_accuracies_are_those_of_an_undisturbed_run(processes: Processes, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    chosen = settings("run.num_rounds=6")
    run = processes.coordinator("loopback", *chosen)
    for number in (2, 4):
        run.hear(rf"\[ROUND {number}/6\]", within_s=60)
        run.kill()
        run = processes.coordinator("loopback", "--resume", run.folder, name=f"resumed-{number}")
    assert comparable(finished(run)) == comparable(simulated_here(tmp_path / "simulated", chosen))
    assert all(run.summary["accuracy"]["per_client"].values())


def test_a_finished_run_says_so(pairs: PairsRun) -> None:
    run = pairs.loopback()
    assert run.wait() == ExitCode.FINISHED
    resumed = pairs.processes.coordinator("loopback", "--resume", run.folder, name="resumed")
    assert resumed.wait() == ExitCode.FINISHED
    assert resumed.printed[0] == resumed.printed[-1] == f"run folder: {run.folder}"
    assert "the run is finished already" in resumed.printed
    assert resumed.printed[2:-2] == run.printed[1:-2]
    assert resumed.printed[-2] == f"report: {run.folder / 'report.html'}"


def test_a_run_that_has_failed_for_good_says_so(pairs: PairsRun) -> None:
    pairs.configure(data={"partition": "pairs:nobody"}, round={"max_failed_rounds": 1})
    run = pairs.loopback()
    assert run.wait() == ExitCode.FAILED
    resumed = pairs.processes.coordinator("loopback", "--resume", run.folder, name="resumed")
    assert resumed.wait() == ExitCode.FAILED
    assert "the run is over: failed (1 rounds failed in a row (max_failed_rounds))" in resumed.said
    assert "joined" not in resumed.said
    assert resumed.summary["global_hash"] == pairs.expected_hashes([None])


def test_a_run_that_goes_on_elsewhere_is_refused(pairs: PairsRun) -> None:
    run = pairs.serve()
    assert run.address
    second = pairs.processes.coordinator("serve", "--resume", run.folder, name="second")
    assert second.wait() == ExitCode.BAD_CONFIG
    assert f"in use by process {run.pid}; stop it or name another folder" in second.said.splitlines()[-1]
    assert run.stop() == ExitCode.INTERRUPTED
