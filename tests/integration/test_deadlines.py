"""Rounds close by their deadline with a quorum, fail without one, and put everybody back to their start."""

from __future__ import annotations

import signal

from tests.integration.pairs_run import SILENCE_S, Counted, PairsRun, counted_in
from tests.integration.processes import until
from tests.integration.served_run import client_id
from wire.exit_codes import ExitCode

FIRST, SECOND, THIRD = client_id(0), client_id(1), client_id(2)

DEADLINE_S = 2.0

ALL = [0, 1, 2]


def test_a_straggler_is_left_behind_and_counted_in_a_later_round(pairs: PairsRun) -> None:
    pairs.configure(data={"num_clients": 3}, round={"deadline_s": DEADLINE_S, "min_clients": 2})
    pairs.gates.shut(THIRD)
    coordinator, clients = pairs.serve_all(0, 1, 2)
    coordinator.hear(r"\[ROUND 1/2\] ok=2 failed=1 late=0")
    pairs.gates.open(THIRD)
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 3
    first, second = coordinator.rounds
    assert DEADLINE_S <= first["round_s"] < DEADLINE_S + 1
    assert second["status"] == "completed"
    assert coordinator.summary["updates"]["accepted"] == 5 + 6
    counted = counted_in(coordinator)
    assert counted == [Counted(ALL, [0, 1]), Counted(ALL, ALL)]
    assert coordinator.summary["global_hash"] == pairs.expected_hashes(counted)


def test_an_update_that_comes_too_late_is_refused_as_stale(pairs: PairsRun) -> None:
    """Its sender was frozen when the round closed, is put back to the round's start and takes part in the next one."""
    pairs.configure(data={"num_clients": 3}, round={"deadline_s": SILENCE_S + 1.0, "min_clients": 2})
    pairs.gates.shut(THIRD)
    coordinator, clients = pairs.serve_all(0, 1, 2)
    pairs.gates.see(THIRD)
    clients[2].send(signal.SIGSTOP)
    pairs.gates.open(THIRD)
    until(lambda: pairs.has_made_uplink(THIRD), "the uplink is made")
    coordinator.hear(r"\[ROUND 1/2\] ok=2 failed=1 late=0")
    clients[2].send(signal.SIGCONT)
    coordinator.hear(rf"{THIRD}: update refused \(stale\): .*the run is in round 2, exchange 0")
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 3
    assert "the coordinator refused the update (stale)" in clients[2].said
    assert coordinator.summary["updates"] == {"accepted": 5 + 6, "duplicate": 0, "stale": 1, "refused": 0}
    counted = counted_in(coordinator)
    assert counted == [Counted(ALL, [0, 1]), Counted(ALL, ALL)]
    assert coordinator.summary["global_hash"] == pairs.expected_hashes(counted)


def test_a_round_without_a_quorum_fails_and_leaves_no_trace(pairs: PairsRun) -> None:
    pairs.configure(run={"num_rounds": 3}, data={"num_clients": 3}, round={"deadline_s": DEADLINE_S, "min_clients": 2})
    pairs.gates.shut(SECOND)
    coordinator, clients = pairs.serve_all(0, 1, 2)
    until(lambda: coordinator.num_stored(exchange=1) == 2, "the others have answered in round 1")
    pairs.gates.shut(FIRST, THIRD)
    pairs.gates.open(SECOND)
    reason = rf"exchange 1 ended with 1 of 2 updates \(min_clients\); missing: {FIRST}, {THIRD}"
    coordinator.hear(rf"\[ROUND 2/3\] .*FAILED: {reason}")
    pairs.gates.open(FIRST, THIRD)
    assert coordinator.wait() == ExitCode.FINISHED
    assert [client.wait() for client in clients] == [ExitCode.FINISHED] * 3
    assert DEADLINE_S <= coordinator.rounds[1]["round_s"] < DEADLINE_S + 1
    assert coordinator.summary["rounds_completed"] == 2
    counted = counted_in(coordinator)
    assert counted == [Counted(ALL, ALL), None, Counted(ALL, ALL)]
    assert coordinator.summary["global_hash"] == pairs.expected_hashes(counted)


def test_rounds_that_fail_in_a_row_end_the_run(pairs: PairsRun) -> None:
    pairs.configure(run={"num_rounds": 5}, round={"deadline_s": 0.5, "max_failed_rounds": 2})
    pairs.gates.shut(FIRST)
    coordinator, clients = pairs.serve_all(0, 1)
    assert coordinator.wait() == ExitCode.FAILED
    assert [client.wait() for client in clients] == [ExitCode.FAILED] * 2
    assert "the run is over: failed (2 rounds failed in a row (max_failed_rounds))" in coordinator.said
    assert [line["status"] for line in coordinator.rounds] == ["failed", "failed"]
    assert coordinator.summary["global_hash"] == pairs.expected_hashes([None, None])


def test_progress_extends_a_deadline_but_not_for_ever(pairs: PairsRun) -> None:
    pairs.configure(round={"deadline_s": 1.5, "max_exchange_s": 2.5, "max_failed_rounds": 1})
    pairs.gates.shut(FIRST, how="report")
    coordinator, _ = pairs.serve_all(0, 1)
    assert coordinator.wait() == ExitCode.FAILED
    (line,) = coordinator.rounds
    assert 2.5 <= line["round_s"] < 2.5 + 1


def test_a_round_that_the_method_cannot_use_leaves_no_trace(pairs: PairsRun) -> None:
    """Its first exchange has changed the server half and every client by then."""
    pairs.gates.shut("server-echoes", how="fail")
    run = pairs.loopback()
    assert run.wait() == ExitCode.FINISHED
    assert "FAILED: the gate says so" in run.said
    assert run.summary["global_hash"] == pairs.expected_hashes([None, Counted([0, 1], [0, 1])])
