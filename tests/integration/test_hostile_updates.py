"""A client that is let in and sends wrong numbers: refused by name, left out in the end, and of no effect."""

from __future__ import annotations

import json
import signal

from tests.integration.hostile import WIDTH, hostile_updates
from tests.integration.pairs_run import Counted, PairsRun
from tests.integration.processes import Coordinator, Process, until
from tests.integration.raw_client import RawClient
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode
from wire.messages import Refusal, Task

FIRST, THIRD = client_id(0), client_id(2)


def configure(pairs: PairsRun, max_refusals: int) -> None:
    """One round of three clients, of which two suffice."""
    pairs.configure(
        run={"num_rounds": 1},
        data={"num_clients": 3},
        round={"min_clients": 2},
        gate={"max_refusals": max_refusals},
        transport={"heartbeat_s": 30.0},
    )


def join(pairs: PairsRun, attacker: RawClient) -> None:
    attacker.join(pairs.class_counts(2), feature_dim=WIDTH)
    attacker.expect(Task)


def hold_up(coordinator: Coordinator, first: Process) -> None:
    """Let the first client get ready and answer nothing, as an exchange closes when all but the attacker have."""
    coordinator.hear("waiting for clients 2/3")
    first.send(signal.SIGUSR1)
    coordinator.hear(f"{FIRST} waits for SIGUSR2")


def send_misfit(attacker: RawClient) -> None:
    """Send one update that is a message, and hear that it is refused."""
    attacker.send_frames(next(one.frames for one in hostile_updates(attacker.run) if one.is_message))
    assert attacker.expect(Refusal).code == "malformed"


def see_left_out(attacker: RawClient) -> None:
    refusal = attacker.expect(Refusal)
    assert (refusal.code, refusal.permanent) == ("left_out", True)


def see_no_effect(pairs: PairsRun, coordinator: Coordinator, num_refused: int) -> None:
    """See the run end as if the attacker had never been there, but for the count."""
    assert coordinator.wait() == ExitCode.FINISHED
    assert coordinator.summary["global_hash"] == pairs.expected_hashes([Counted([0, 1], [0, 1])])
    assert "Traceback" not in coordinator.said
    assert coordinator.summary["updates"]["refused"] == num_refused


def num_refused(coordinator: Coordinator) -> int:
    """Return how many updates of the attacker the store knows as refused."""
    found = coordinator.stored("SELECT value FROM meta WHERE key = 'misfits'")
    return int(json.loads(found[0][0])[THIRD]) if found else 0


def test_an_enrolled_attacker_moves_nothing_and_is_left_out(pairs: PairsRun) -> None:
    most = 1 + sum(one.is_message for one in hostile_updates(0))
    configure(pairs, most)
    coordinator, clients = pairs.serve_all(0, 1)
    hold_up(coordinator, clients[0])
    with pairs.peer(coordinator.address, THIRD) as attacker:
        join(pairs, attacker)
        for name, frames, words, _ in hostile_updates(attacker.run):
            attacker.send_frames(frames)
            refusal = attacker.expect(Refusal)
            assert (refusal.code, refusal.permanent) == ("malformed", False), name
            assert words in refusal.reason, name
        send_misfit(attacker)
        see_left_out(attacker)
        attacker.hello()
        see_left_out(attacker)
    clients[0].send(signal.SIGUSR2)
    see_no_effect(pairs, coordinator, most)
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2


def test_refusals_survive_a_restart_and_who_was_left_out_stays_out(pairs: PairsRun) -> None:
    configure(pairs, max_refusals=1)
    pairs.gates.shut(FIRST)
    coordinator, clients = pairs.serve_all(0, 1)
    with pairs.peer(coordinator.address, THIRD) as attacker:
        join(pairs, attacker)
        send_misfit(attacker)
        see_left_out(attacker)
    until(lambda: num_refused(coordinator) == 1, "the refusal is counted for good")
    coordinator.kill()
    resumed = pairs.resume(coordinator)
    with pairs.peer(resumed.address, THIRD) as attacker:
        attacker.hello()
        see_left_out(attacker)
    pairs.gates.open(FIRST)
    see_no_effect(pairs, resumed, num_refused=1)
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 2
