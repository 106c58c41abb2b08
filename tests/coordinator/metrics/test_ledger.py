"""The accounts of a run, by numbers made by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET, MsgspecError
from msgspec.structs import replace

from coordinator.metrics.footprint import PEAKS_OF_CLIENTS
from coordinator.metrics.ledger import Cost, Ledger
from coordinator.metrics.tally import ExchangeLine, Report, read_line
from models.spec import EvaluationConfig
from tests.coordinator.accounting import (
    READY,
    SPEC,
    TASK,
    TWO,
    UPDATE,
    Book,
    ledger,
    report,
    scored,
    summary_of,
    whole_run,
)
from wire.timing import Timing, microseconds


def test_the_summary_has_every_key_of_the_contract() -> None:
    summary = summary_of(ledger())
    assert summary.keys() >= {
        "run_id", "method", "mode", "seed", "num_rounds", "rounds_completed", "num_clients", "accuracy",
        "accuracy_by_rule", "uplink", "downlink", "init", "global_hash", "round_s", "coordination_s", "memory",
        "updates", "versions",
    }  # fmt: skip
    traffic = {"elements", "predicted_elements", "payload_bytes", "encoded_bytes", "wire_bytes"}
    assert summary["uplink"].keys() & summary["downlink"].keys() >= traffic
    assert summary["init"].keys() >= {"payload_bytes", "encoded_bytes"}
    assert summary["accuracy"].keys() >= {"rule", "best", "best_round", "last", "per_client"}
    assert summary["updates"].keys() == {"accepted", "duplicate", "stale", "refused"}
    assert set(summary["memory"]) == {
        f"{kind}_peak_rss_bytes" for kind in ("coordinator", "aggregator", "client", "trainer")
    }
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_accuracy_is_weighted_by_test_samples_and_stands_beside_the_plain_mean() -> None:
    by_rule = summary_of(whole_run().ledger)["accuracy_by_rule"]
    assert by_rule["head"] == {
        "best": 9 / 10,
        "best_round": 3,
        "last": 9 / 10,
        "num_clients": {"best": 1, "last": 1},
        "mean": {"best": 9 / 10, "best_round": 3, "last": 9 / 10},
    }
    assert by_rule["local_prototype"] == {
        "best": 34 / 40,
        "best_round": 1,
        "last": 34 / 40,
        "num_clients": {"best": 2, "last": 2},
        "mean": {"best": pytest.approx((0.4 + 1) / 2), "best_round": 1, "last": pytest.approx((0.4 + 1) / 2)},
    }


def test_a_global_rule_is_booked_to_the_round_that_made_the_state() -> None:
    summary = summary_of(whole_run().ledger)
    assert summary["accuracy"]["rule"] == "anchor"
    assert summary["accuracy_by_rule"]["anchor"]["mean"] == {"best": 0.75, "best_round": 3, "last": 0.75}
    assert (summary["accuracy"]["best"], summary["accuracy"]["best_round"]) == (35 / 40, 3)
    assert summary["accuracy"]["per_client"] == {"ann": 0.5, "bob": 1.0}


def test_scores_of_a_failed_round_do_not_count() -> None:
    book = Book()
    book.ledger.round_opened(1, 0)
    book.exchange(1, 0, 0, {"ann": report(0), "bob": report(0)})
    book.exchange(1, 1, 2, {"ann": report(0, scored(1, 10, head=10))})
    book.close(1, 5, "failed", "nothing to aggregate")
    assert summary_of(book.ledger)["accuracy_by_rule"]["head"]["best"] is None
    book.round(2, 10, {}, {"bob": report(0, scored(2, 30, head=15))})
    assert summary_of(book.ledger)["accuracy_by_rule"]["head"]["best"] == 0.5


def test_a_score_told_twice_counts_once() -> None:
    book = whole_run()
    totals = summary_of(book.ledger)["accuracy_by_rule"]["anchor"]
    assert totals["best_round"] == 3
    assert book.ledger.headline(1).accuracy["anchor"] == 10 / 40
    assert book.ledger.headline(1).accuracy["head"] == 26 / 40


@pytest.mark.parametrize(
    "impossible", [scored(9, 10, head=9), scored(0, 10, head=9), scored(1, 10, head=11), scored(1, 10**9, head=10**9)]
)
def test_an_impossible_score_is_left_out_and_counted(impossible: Any) -> None:
    """Ann has announced 10 test samples."""
    book = Book()
    book.round(1, 0, {}, {"ann": report(0, impossible), "bob": report(0, scored(1, 30, head=15))})
    summary, resumed = summary_of(book.ledger), ledger()
    assert summary["accuracy_by_rule"]["head"]["best"] == 0.5
    assert [summary["clients"][client]["num_evaluations_left_out"] for client in READY] == [1, 0]
    resumed.replay([*book.exchange_lines, *book.round_lines])
    assert summary_of(resumed) == summary


def test_each_rule_has_the_samples_that_it_was_told_with() -> None:
    """Ann's samples have changed before the next task, with which the global rule comes."""
    book = Book()
    book.round(1, 0, {}, {"ann": report(0, scored(1, 10, head=10))})
    book.round(2, 10, {"ann": report(0, scored(1, 2, anchor=1))}, {"ann": report(0)})
    by_rule = summary_of(book.ledger)["accuracy_by_rule"]
    assert (by_rule["head"]["best"], by_rule["anchor"]["best"]) == (1.0, 0.5)


def test_a_client_without_test_samples_weighs_nothing() -> None:
    book = Book()
    book.round(1, 0, {}, {"ann": report(0, scored(1, 0, head=0)), "bob": report(0, scored(1, 30, head=15))})
    accuracy = summary_of(book.ledger)["accuracy_by_rule"]["head"]
    assert (accuracy["best"], accuracy["mean"]["best"]) == (0.5, 0.5)


def test_a_round_that_nobody_tested_is_absent() -> None:
    book = Book()
    book.round(1, 0, {}, {"ann": report(0, scored(1, 10, head=5))})
    book.round(2, 10, {}, {"ann": report(0)})
    accuracy = summary_of(book.ledger)["accuracy_by_rule"]["head"]
    assert (accuracy["best_round"], accuracy["last"]) == (1, 0.5)
    assert book.ledger.headline(2).accuracy == {"head": 0.5}


def test_the_config_names_the_headline() -> None:
    accounts = Ledger(replace(SPEC, evaluation=EvaluationConfig(rule="head")), TWO)
    assert summary_of(accounts)["accuracy"]["rule"] == "head"


def test_traffic_is_added_up_and_predicted() -> None:
    """Means up: ann and bob hold 2 classes each, 2 values of 4 bytes and a count; weights up: 100 values.

    Means down: nothing known in round 1, then 3 classes; weights down: a value per completed round.
    """
    summary = summary_of(whole_run().ledger)
    num_updates, num_tested = 4 + 3 + 3, 2
    up_elements = (8 + 200) + (8 + 100) + (8 + 100)
    assert summary["uplink"] == {
        "elements": 4 * num_updates,
        "predicted_elements": up_elements,
        "payload_bytes": 24 * num_updates,
        "predicted_payload_bytes": 4 * up_elements + 3 * 2 * 2 * 4,
        "encoded_bytes": 50 * num_updates,
        "wire_bytes": 54 * (num_updates + num_tested),
        "resent_bytes": 0,
    }
    down_elements = 0 + 2 * (3 * 2 + 1) + 2 * (3 * 2 + 1)
    assert summary["downlink"]["elements"] == 8 * 12
    assert summary["downlink"]["predicted_elements"] == down_elements
    assert summary["downlink"]["predicted_payload_bytes"] == 4 * down_elements + 2 * 2 * 3 * 2
    assert summary["updates"] == {"accepted": num_updates, "duplicate": 0, "stale": 1, "refused": 0}


def test_the_evaluation_is_counted_apart() -> None:
    evaluation = summary_of(whole_run().ledger)["evaluation"]
    assert evaluation["accepted"] == 2
    assert evaluation["downlink"]["elements"] == 16
    assert evaluation["downlink"]["predicted_elements"] == 2 * 3 * 2
    assert evaluation["uplink"]["predicted_elements"] == evaluation["uplink"]["predicted_payload_bytes"] == 0


def test_the_samples_of_some_clients_are_counted() -> None:
    assert (ledger().num_train(["ann", "bob"]), ledger().num_train(["bob"]), ledger().num_train([])) == (35, 5, 0)


def test_a_repeated_task_counts_only_on_the_wire() -> None:
    book = Book()
    book.open(1, 0, 0, {"ann": report(0)})
    book.ledger.task_sent("ann", TASK, 0.5)
    (line, *_) = map(json.loads, book.ledger.exchange_closed({}, 2))
    assert (line["down"]["elements"], line["down"]["payload_bytes"], line["down"]["encoded_bytes"]) == (8, 40, 60)
    assert (line["down"]["wire_bytes"], line["down"]["resent_bytes"]) == (128, 60)
    assert line["turnaround_s"] == 1


def test_clients_are_booked_once_and_before_the_server_half_answers() -> None:
    """A server half that died is asked once more, and an exchange is closing from then on a second time."""
    book = Book()
    book.open(1, 0, 10, {"ann": report(0.5)})
    for at in (11.5, 15):
        book.ledger.exchange_closing(at)
        assert summary_of(book.ledger)["updates"]["accepted"] == 1
    ann, _, server = map(json.loads, book.ledger.exchange_closed({}, 16))
    assert (ann["wait_s"], server["aggregate_s"]) == (0.5, 4.5)
    assert summary_of(book.ledger)["updates"]["accepted"] == 1


def test_a_line_says_what_became_of_a_client() -> None:
    book = Book()
    book.open(1, 0, 10, {"ann": report(0.5, scored(1, 10, head=9))})
    ann, bob, server = map(json.loads, book.ledger.exchange_closed({"loss": float("nan"), "share": 0.5}, 13))
    assert (ann["client"], ann["status"], ann["exchange"], ann["round"]) == ("ann", "accepted", "means", 1)
    assert (ann["train_s"], ann["checkpoint_s"], ann["encode_s"], ann["turnaround_s"]) == (0.5, 0.25, 0.25, 1)
    assert ann["evaluations"] == [{"round": 1, "num_test": 10, "correct": {"head": 9}}]
    assert (ann["up"]["predicted_elements"], ann["up"]["predicted_payload_bytes"]) == (4, 24)
    assert (bob["client"], bob["status"], bob["up"]["encoded_bytes"], bob["train_s"]) == ("bob", "missing", 0, None)
    assert bob["down"]["encoded_bytes"] == 60
    assert bob["up"]["predicted_elements"] == 0
    assert (ann["computed_by"], bob["computed_by"]) == ("torch, cpu", "")
    assert (server["metrics"], server["exchange_s"]) == ({"loss": None, "share": 0.5}, 3)
    assert server["null_reasons"] == {"metrics.loss": "aggregate returned nan"}


def test_a_line_whose_metrics_are_all_known_has_no_reasons_and_reads_as_it_did() -> None:
    book = Book()
    book.open(1, 0, 10, {})
    written = book.ledger.exchange_closed({"share": 0.5}, 13)[-1]
    assert "null_reasons" not in json.loads(written)
    read = read_line(written)
    assert isinstance(read, ExchangeLine)
    assert (read.metrics, read.null_reasons) == ({"share": 0.5}, UNSET)


def test_an_update_that_cannot_be_right_is_told_apart_from_a_missing_one_unless_a_corrected_one_came() -> None:
    book = Book()
    book.open(1, 0, 10, {})
    for client in READY:
        book.ledger.update_refused(client)
    book.ledger.update_accepted("ann", UPDATE, report(0.5), 11)
    ann, bob, _ = map(json.loads, book.ledger.exchange_closed({}, 13))
    assert (ann["status"], ann["up"]["encoded_bytes"]) == ("accepted", 50)
    assert (bob["status"], bob["up"]["encoded_bytes"], bob["turnaround_s"]) == ("refused", 0, None)
    line = json.loads(book.ledger.round_closed(1, "completed", "", "hash", 14)[-1])
    assert (line["ok"], line["failed"], line["num_accepted"]) == (1, 1, 1)


def test_coordination_is_the_round_without_its_slowest_client() -> None:
    """Ann works 1 + 1.5 s and bob 1.5 + 1 s, each with half a second of checkpoint and encoding per exchange."""
    book = whole_run()
    first, failed, third = map(json.loads, book.round_lines)
    assert (first["round_s"], first["coordination_s"]) == (5, 5 - 2.5)
    assert (third["round_s"], third["coordination_s"]) == (5, 5 - 3)
    assert (failed["status"], failed["reason"], failed["round_s"]) == ("failed", "1 of 2 updates", 10)
    assert summary_of(book.ledger)["coordination_s"] == {"median": 2.25, "p95": pytest.approx(2.475)}
    assert summary_of(book.ledger)["round_s"] == {"median": 5, "p95": 5}


def test_in_a_simulation_the_line_of_a_round_has_no_coordination_as_clients_take_turns() -> None:
    book = Book()
    book.ledger = Ledger(SPEC, TWO, simulated_now=lambda: None)
    book.round(1, 0, {"ann": report(1)}, {"ann": report(1)})
    line = json.loads(book.round_lines[0])
    assert (line["round_s"], line["coordination_s"]) == (5, None)


def test_work_that_took_too_long_to_be_told_is_unknown_and_so_is_what_follows() -> None:
    """Ann trains for two hours, of which a timing tells 71 minutes at most."""
    timing = Timing.of_seconds(7200, 0, 0.25, 0.25)._replace(held_us=microseconds(7201))
    book = Book()
    book.round(1, 0, {"ann": Report.of((), timing), "bob": report(1)}, {"bob": report(1)})
    ann = json.loads(book.exchange_lines[0])
    told = ("train_s", "checkpoint_s", "turnaround_s", "queue_s", "downlink_s", "uplink_s")
    assert [ann[figure] for figure in told] == [None, 0.25, 1, None, None, None]
    line, summary = json.loads(book.round_lines[0]), summary_of(book.ledger)
    assert (line["round_s"], line["coordination_s"], summary["coordination_s"]["median"]) == (5, None, None)
    assert "all its clients' work told" in summary["null_reasons"]["coordination_s.median"]
    assert summary["time_s"]["train"] == 1


def test_a_round_counts_who_was_there_at_its_end() -> None:
    book = whole_run()
    told = [(view.ok, view.failed, view.late) for view in map(book.ledger.headline, (1, 2, 3))]
    assert told == [(2, 0, 0), (1, 1, 1), (1, 1, 0)]
    assert book.ledger.headline(3).round == 3
    assert book.ledger.headline(2).up_bytes == 3 * 50
    assert book.ledger.headline(2).down_bytes == 4 * 60
    assert summary_of(book.ledger)["global_hash"] == ["hash1", "hash2", "hash3"]
    assert (summary_of(book.ledger)["rounds_completed"], summary_of(book.ledger)["rounds_failed"]) == (2, 1)


def test_a_round_that_never_opened_can_fail() -> None:
    book = Book()
    book.close(1, 60, "failed", "1 of 2 clients")
    view = book.ledger.headline(1)
    assert (view.ok, view.failed, view.seconds, view.reason) == (0, 0, None, "1 of 2 clients")


def test_there_is_no_round_before_the_first() -> None:
    with pytest.raises(LookupError, match="no round"):
        ledger().headline(1)


def test_refusals_and_constants_are_counted() -> None:
    accounts = ledger()
    for code in ("duplicate", "duplicate", "stale", "not_in_cohort"):
        accounts.since_start.refused(code)
    accounts.since_start.constant_sent("ann", "a", Cost(10, 40, 70, 74))
    accounts.since_start.constant_sent("bob", "a", Cost(10, 40, 70, 74))
    summary = summary_of(accounts)
    assert summary["updates"] == {"accepted": 0, "duplicate": 2, "stale": 1, "refused": 1}
    assert summary["init"] == {"elements": 20, "payload_bytes": 80, "encoded_bytes": 140, "wire_bytes": 148}


def test_an_unannounced_client_has_no_prediction() -> None:
    accounts = Ledger(SPEC, TWO)
    accounts.round_opened(1, 0)
    accounts.exchange_opened(1, 0, ["ann"], 0)
    accounts.task_sent("ann", TASK, 0)
    accounts.update_accepted("ann", UPDATE, report(0), 1)
    accounts.exchange_closed({}, 2)
    summary = summary_of(accounts)
    assert summary["uplink"]["predicted_elements"] is None
    assert "announced" in summary["null_reasons"]["uplink.predicted_elements"]
    assert summary["uplink"]["elements"] == 4


def test_every_null_has_a_reason() -> None:
    summary = summary_of(whole_run().ledger, "simulate")
    assert summary["uplink"]["wire_bytes"] is summary["wire_bytes_source"] is None
    assert set(summary["null_reasons"]) == {
        "uplink.wire_bytes", "downlink.wire_bytes", "init.wire_bytes", "evaluation.uplink.wire_bytes",
        "evaluation.downlink.wire_bytes", "wire_bytes_source", "memory.aggregator_peak_rss_bytes",
        "memory.client_peak_rss_bytes", "memory.trainer_peak_rss_bytes", "coordination_s.median", "coordination_s.p95",
        "wire", "time_s.queue", "time_s.downlink", "time_s.uplink", "energy.total_j", "energy.measured_j",
        "gpu_peak_bytes",
        *(f"clients.{client}.{figure}" for client in READY for figure in (*PEAKS_OF_CLIENTS, "energy_j")),
    }  # fmt: skip
    assert all(summary["null_reasons"].values())
    assert summary["null_reasons"]["energy.total_j"] == "a simulation measures no energy"
    assert summary["null_reasons"]["clients.ann.energy_j"] == "a simulation measures no energy"
    assert summary["null_reasons"]["clients.ann.gpu_peak_bytes"] == "a simulation measures no client apart"


def test_a_client_that_has_not_been_tested_by_the_headline_rule_is_told_by_that_rule_whatever_it_is_called() -> None:
    book, client = Book(), "predicted.wire_bytes"
    book.ledger.announce(client, READY["ann"])
    book.round(1, 0, {"ann": report(1)}, {"ann": report(0.5, scored(1, 10, head=5))})
    summary = summary_of(book.ledger)
    assert summary["accuracy_by_rule"]["head"]["last"] == 0.5
    told = "the client has tested no completed round by anchor"
    reasons = summary["null_reasons"]
    assert (reasons["accuracy.per_client.ann"], reasons[f"accuracy.per_client.{client}"]) == (told, told)
    assert reasons[f"clients.{client}.energy_j"] == "the client has not measured it"


def test_times_of_a_run_in_which_nothing_came_say_what_is_missing() -> None:
    reasons = ledger().summary("simulate", {}, {})["null_reasons"]
    told = {part: reasons[f"time_s.{part}"] for part in ("downlink", "train", "wait", "aggregate")}
    assert told == {
        "downlink": "nothing travels in a simulation",
        "train": "no client has said how long it took",
        "wait": "clients take turns in a simulation",
        "aggregate": "no exchange of a round has been aggregated",
    }


def test_a_caller_may_know_the_reason_better() -> None:
    path = "memory.trainer_peak_rss_bytes"
    reasons = ledger().summary("serve", {}, {}, {path: "no trainer lives here"})["null_reasons"]
    assert reasons[path] == "no trainer lives here"


def test_nothing_is_booked_while_no_exchange_is_open() -> None:
    with pytest.raises(LookupError, match="no exchange is open"):
        ledger().task_sent("ann", TASK, 0)


def test_the_accounts_stay_small() -> None:
    """A long run's lines are forgotten but for one per round."""
    book = Book()
    for round in range(1, 301):
        told = {client: report(0, scored(round - 1, 10, anchor=5)) for client in READY}
        book.round(round, 10 * round, told, {client: report(0, scored(round, 10, head=5)) for client in READY})
        book.exchange_lines.clear()
    assert len(book.ledger._books._accuracies._pending) <= 2
    assert not book.ledger._books._accounts
    assert summary_of(book.ledger)["accuracy_by_rule"]["anchor"]["last"] == 0.5


@pytest.mark.parametrize("text", ["", "{}", "nonsense", '{"kind":"client","round":1}', '{"kind":"other"}'])
def test_a_line_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(MsgspecError):
        ledger().replay([text])
