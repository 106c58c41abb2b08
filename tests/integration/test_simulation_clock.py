"""Deadlines, stragglers and dropouts on the simulated clock, by the rounds of real runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.integration.pairs_run import PairsRun
from tests.integration.processes import booked
from tests.integration.simulated import simulated_here
from wire.exit_codes import ExitCode

QUICK = {"overhead_s": 1.0}
"""Each exchange takes it a second."""


def simulated(pairs: PairsRun, tmp_path: Path, last: dict[str, float], **tables: dict[str, Any]) -> dict[str, Any]:
    """Simulate two rounds of two exchanges with two quick clients and a third one of this profile."""
    simulation = {"profiles": ["quick", "quick", "last"], "own": {"quick": QUICK, "last": last}}
    pairs.configure(data={"num_clients": 3}, simulation=simulation, **tables)
    return simulated_here(tmp_path / "simulated", ["--config", str(pairs.config_path)])


def all_lines(tmp_path: Path) -> list[dict[str, Any]]:
    (folder,) = (tmp_path / "simulated").iterdir()
    return booked(folder)


def round_lines(tmp_path: Path) -> list[dict[str, Any]]:
    return [line for line in all_lines(tmp_path) if line["kind"] == "round"]


def test_a_round_takes_as_long_as_its_slowest_client(pairs: PairsRun, tmp_path: Path) -> None:
    summary = simulated(pairs, tmp_path, {"overhead_s": 3.0})
    assert summary["simulated"]["round_s"] == {"median": 6.0, "p95": 6.0}
    assert [line["simulated_at_s"] for line in round_lines(tmp_path)] == [6.0, 12.0]
    assert summary["simulated"]["total_s"] == 12.0


def test_links_carry_the_true_bytes(pairs: PairsRun, tmp_path: Path) -> None:
    """A kilobit a second for what was encoded and, at most, 48 bytes of framing."""
    summary = simulated(pairs, tmp_path, {"up_mbit_s": 0.001, "overhead_s": 1.0})
    lines = [line for line in all_lines(tmp_path) if line["kind"] == "client" and line["client"] == "client-02"]
    sent = [line["up"]["encoded_bytes"] for line in lines if line["exchange"] != "evaluation"]
    least_s = sum(1.0 + 8 * num_bytes / 1000 for num_bytes in sent)
    assert least_s < summary["simulated"]["total_s"] <= least_s + len(sent) * 8 * 48 / 1000


def test_who_still_works_at_the_deadline_is_left_behind(pairs: PairsRun, tmp_path: Path) -> None:
    summary = simulated(pairs, tmp_path, {"overhead_s": 9.0}, round={"deadline_s": 5.0, "min_clients": 2})
    lines = round_lines(tmp_path)
    assert [(line["ok"], line["failed"], line["simulated_at_s"]) for line in lines] == [(2, 1, 10.0), (2, 1, 20.0)]
    assert summary["updates"]["stale"] == 0
    assert summary["updates"]["accepted"] == 8


def test_what_comes_after_the_deadline_is_refused_as_stale(pairs: PairsRun, tmp_path: Path) -> None:
    summary = simulated(pairs, tmp_path, {"latency_s": 4.0}, round={"deadline_s": 5.0, "min_clients": 2})
    assert summary["updates"]["stale"] >= 2
    assert [line["ok"] for line in round_lines(tmp_path)] == [2, 2]


def test_below_the_quorum_progress_puts_the_deadline_off(pairs: PairsRun, tmp_path: Path) -> None:
    summary = simulated(pairs, tmp_path, {"overhead_s": 9.0}, round={"deadline_s": 5.0, "min_clients": 3})
    assert [line["ok"] for line in round_lines(tmp_path)] == [3, 3]
    assert summary["simulated"]["total_s"] == 36.0


def test_below_the_quorum_a_message_under_way_puts_the_deadline_off(pairs: PairsRun, tmp_path: Path) -> None:
    """At a hundred bits a second no update is there in five seconds."""
    rules = {"deadline_s": 5.0, "min_clients": 3}
    summary = simulated(pairs, tmp_path, {"up_mbit_s": 0.0001}, round=rules)
    assert [line["ok"] for line in round_lines(tmp_path)] == [3, 3]
    assert summary["simulated"]["total_s"] > 4 * 5.0


def test_a_dropout_is_waited_for_and_missed(pairs: PairsRun, tmp_path: Path) -> None:
    settings = {"deadline_s": 5.0, "min_clients": 2}
    summary = simulated(pairs, tmp_path, {"dropout": 0.999999}, round=settings)
    assert [(line["ok"], line["failed"]) for line in round_lines(tmp_path)] == [(2, 1), (2, 1)]
    assert summary["simulated"]["total_s"] == 20.0
    assert summary["evaluation"]["accepted"] == 3


def test_who_is_not_there_is_not_asked(pairs: PairsRun, tmp_path: Path) -> None:
    settings = {"min_clients": 2, "min_available_clients": 2}
    summary = simulated(pairs, tmp_path, {"availability": 1e-9}, round=settings)
    assert [(line["ok"], line["failed"]) for line in round_lines(tmp_path)] == [(2, 0), (2, 0)]
    assert summary["simulated"]["total_s"] == 4.0


def test_a_run_at_whose_start_nobody_is_there_waits_and_fails_in_words(pairs: PairsRun, tmp_path: Path) -> None:
    nobody = {"profiles": ["never"], "own": {"never": {"availability": 1e-9, **QUICK}}}
    settings = {"min_clients": 1, "min_available_clients": 1, "max_exchange_s": 400.0, "max_failed_rounds": 2}
    pairs.configure(round=settings, simulation=nobody)
    simulated_here(tmp_path / "simulated", ["--config", str(pairs.config_path)], ExitCode.FAILED)
    assert [line["reason"] for line in round_lines(tmp_path)] == ["0 of 1 clients (min_available_clients)"] * 2


def test_too_few_clients_fail_the_round_after_the_longest_wait(pairs: PairsRun, tmp_path: Path) -> None:
    settings = {"min_available_clients": 3, "max_exchange_s": 100.0, "deadline_s": 50.0, "max_failed_rounds": 5}
    pairs.configure(run={"num_rounds": 12})
    simulation = {"profiles": ["often"], "own": {"often": {"availability": 0.8, **QUICK}}}
    pairs.configure(round=settings, data={"num_clients": 4}, simulation=simulation)
    simulated_here(tmp_path / "simulated", ["--config", str(pairs.config_path)])
    lines = round_lines(tmp_path)
    failed = [line["reason"] for line in lines if line["status"] == "failed"]
    assert failed
    assert all("of 3 clients (min_available_clients)" in reason for reason in failed)
    assert lines[-1]["simulated_at_s"] == 100.0 * len(failed) + 2.0 * (12 - len(failed))
