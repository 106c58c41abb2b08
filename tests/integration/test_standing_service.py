"""One coordinator, clients that stay, and runs that come and go."""

from __future__ import annotations

import pytest

from coordinator import client_api
from coordinator.metrics.tally import RoundLine
from coordinator.service.orders import RunState
from models.spec import ConfigError
from tests.integration.pairs_run import PairsRun
from tests.integration.processes import until
from tests.integration.served_run import client_id
from tests.integration.standing_service import StandingService
from wire.exit_codes import ExitCode
from wire.messages import Finish, Goodbye, Standby, Welcome


@pytest.fixture
def service(pairs: PairsRun) -> StandingService:
    """A service whose runs are those of `pairs`."""
    pairs.configure(report={"page": False})
    return StandingService(pairs)


def test_clients_stay_on_their_link_from_run_to_run(service: StandingService) -> None:
    service.pairs.configure(transport={"heartbeat_s": 5.0})
    service.start()
    clients = [service.client(index) for index in range(2)]
    run_ids = [service.submit(f"run.seed={seed}") for seed in range(3)]
    events = list(client_api.watch(run_ids[2], service.folder))
    assert [event.round for event in events if isinstance(event, RoundLine)] == [1, 2]
    states = [event.state for event in events if isinstance(event, RunState)]
    assert (states[0], states[-1]) == ("queued", "over")
    for seed, run_id in enumerate(run_ids):
        assert service.outcome(run_id) == "finished"
        service.pairs.configure(run={"seed": seed})
        summary = service.summary(run_id)
        assert summary["global_hash"] == service.pairs.undisturbed_hashes()
        assert {link["num_connections"] for link in summary["wire"]["clients"].values()} == {1}
    assert service.process.said.count("is here") == 2
    assert [result.rounds for result in client_api.results(run_ids, service.folder)] == [2, 2, 2]
    assert [client.stop() for client in clients] == [ExitCode.INTERRUPTED] * 2
    assert service.process.stop() == ExitCode.INTERRUPTED


def test_a_killed_service_goes_on_with_its_runs_and_its_queue(service: StandingService) -> None:
    service.pairs.gates.shut(client_id(0))
    service.start()
    for index in range(2):
        service.client(index)
    first, second = (service.submit(f"run.seed={seed}") for seed in range(2))
    service.pairs.gates.see(client_id(0))
    assert [run.state for run in client_api.runs(service.folder)] == ["running", "queued"]
    service.process.kill()
    service.pairs.gates.open(client_id(0))
    again = service.start("again")
    for seed, run_id in enumerate((first, second)):
        assert service.outcome(run_id) == "finished"
        service.pairs.configure(run={"seed": seed})
        assert service.summary(run_id)["global_hash"] == service.pairs.undisturbed_hashes()
    assert f"{first} goes on\n" in again.said
    assert f"{second} begins\n" in again.said


@pytest.mark.slow
def test_runs_are_stopped_resumed_and_cancelled(service: StandingService) -> None:
    service.pairs.gates.shut(client_id(0))
    service.start()
    for index in range(2):
        service.client(index)
    first, second = (service.submit() for _ in range(2))
    service.pairs.gates.see(client_id(0))
    assert "max_concurrent_runs = 1" in service.state(second).told
    assert client_api.cancel(second, service.folder) == "cancelled"
    command = service.pairs.processes.coordinator("stop", service.folder / "runs" / first, name="stop")
    assert command.wait() == ExitCode.FINISHED
    assert command.printed == [f"{first} is stopped; its outcome: interrupted"]
    with pytest.raises(ConfigError, match="expected a run that goes on, got one that is over"):
        client_api.stop(first, service.folder)
    service.pairs.gates.open(client_id(0))
    assert client_api.resume(first, service.folder) == "queued"
    assert service.outcome(first) == "finished"
    assert service.summary(first)["global_hash"] == service.pairs.undisturbed_hashes()
    assert service.state(second).outcome == "cancelled"


@pytest.mark.slow
def test_a_run_waits_for_clients_that_meet_its_requirements(service: StandingService) -> None:
    service.start(max_concurrent_runs=2)
    service.client(0, tags=["attic"])
    service.client(1)
    run_id = service.submit('require.tags=["attic"]')
    told = "waiting for clients 1/2, 2 are here: 1 without tags attic"
    until(lambda: service.state(run_id).told == told, told)
    other = service.submit("data.num_clients=1", 'require.tags=["attic"]')
    assert service.outcome(other) == "finished"
    assert service.state(run_id).state == "queued"


@pytest.mark.slow
def test_a_client_declines_what_it_lacks_and_stays_for_the_next_run(service: StandingService) -> None:
    service.start(max_concurrent_runs=2)
    willing, poor = service.client(0), service.client(1, plugins=[])
    run_id = service.submit()
    poor.hear("declined: the run wants 'pairs:METHOD', which .* does not allow")
    declined = f"declined by {client_id(1)}: the run wants 'pairs:METHOD'"
    until(lambda: declined in service.state(run_id).told, declined)
    client_api.cancel(run_id, service.folder)
    willing.hear("the run is over: interrupted; waiting for the next one")
    assert service.outcome(service.submit("data.num_clients=1")) == "finished"
    assert not poor.ended


@pytest.mark.slow
def test_a_run_that_everybody_declines_fails_and_holds_nobody_up(service: StandingService) -> None:
    service.start()
    for index in range(2):
        service.client(index, plugins=[])
    run_id = service.submit()
    assert service.outcome(run_id) == "failed"
    everybody = f"{client_id(0)}, {client_id(1)}"
    assert service.state(run_id).told.startswith(f"nobody is left to take part: declined by {everybody}: the run")
    assert service.summary(run_id)["outcome"] == "failed"


@pytest.mark.slow
def test_clients_of_one_run_alone_are_not_counted_for_the_next(service: StandingService) -> None:
    service.start()
    first, second = (service.submit(f"run.seed={seed}") for seed in range(2))
    leaving = [service.pairs.client(index, service.address) for index in range(2)]
    assert service.outcome(first) == "finished"
    assert [client.wait() for client in leaving] == [ExitCode.FINISHED] * 2
    assert service.state(second).told == "waiting for clients 0/2, 0 are here"
    for index in range(2):
        service.client(index)
    assert service.outcome(second) == "finished"


@pytest.mark.slow
def test_two_runs_share_the_clients_that_are_there(service: StandingService) -> None:
    service.pairs.configure(data={"num_clients": 4}, round={"min_available_clients": 2})
    service.pairs.gates.shut(client_id(0))
    service.start(max_concurrent_runs=2)
    for index in range(2):
        service.client(index)
    first = service.submit()
    service.pairs.gates.see(client_id(0))
    for index in range(2, 4):
        service.client(index, tags=["late"])
    until(lambda: len(service.state(first).clients) == 4, "those that come late go to the run that lacks some")
    service.pairs.gates.open(client_id(0))
    assert service.outcome(first) == "finished"


@pytest.mark.slow
def test_a_client_of_an_older_minor_version_takes_part_as_ever(service: StandingService) -> None:
    service.pairs.configure(data={"num_clients": 1}, run={"num_rounds": 1})
    service.start()
    with service.pairs.peer(service.address) as peer:
        peer.hello()
        run_id = service.submit()
        peer.run = peer.expect(Welcome).run
        client_api.cancel(run_id, service.folder)
        peer.expect(Finish)
        peer.send(Goodbye("over"))
        assert service.outcome(run_id) == "cancelled"
    assert not any(isinstance(message, Standby) for message in peer.passed)


def test_a_broken_config_is_refused_as_check_config_does(service: StandingService) -> None:
    service.start()
    service.pairs.config_path.write_text("[round]\nfractoin = 1\n")
    with pytest.raises(ConfigError) as refused:
        service.submit()
    assert str(refused.value) == "run.toml [round]: unknown key 'fractoin'; did you mean 'fraction'?"
    assert client_api.runs(service.folder) == []
