"""Figures by round, client and exchange, held against the accounts that write the summary."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from coordinator.metrics.accounts import NO_TRAFFIC
from coordinator.metrics.series import Flow, gather, typical_rounds
from coordinator.metrics.tally import Answer, ClientLine, ExchangeLine, Refusals, RoundLine, read_line
from coordinator.report.reading import Run
from tests.coordinator.report.runs import RecordedRun


def test_best_and_last_accuracies_are_the_summarys(run: Run) -> None:
    assert set(run.series.accuracy) == set(run.summary["accuracy_by_rule"])
    for rule, points in run.series.accuracy.items():
        told = run.summary["accuracy_by_rule"][rule]
        assert max(point.weighted for point in points) == told["best"]
        assert points[-1].weighted == told["last"]
        assert max(point.mean for point in points) == told["mean"]["best"]


def test_a_point_has_weighted_mean_and_band(run: Run) -> None:
    first = run.series.accuracy["head"][0]
    assert (first.round, first.weighted, first.mean, first.num_clients) == (1, 32 / 40, 0.7, 2)
    assert (first.low, first.high) == pytest.approx((0.54, 0.86))
    assert [point.round for point in run.series.accuracy["anchor"]] == [1]


def test_exchanges_and_clients_add_up_to_the_summary(run: Run) -> None:
    for way, side in (("uplink", "up"), ("downlink", "down")):
        for figure in ("elements", "predicted_elements", "payload_bytes", "encoded_bytes", "wire_bytes"):
            of_exchanges = sum(getattr(getattr(flow, side), figure) for flow in run.series.exchanges.values())
            of_clients = sum(getattr(getattr(flow, side), figure) for flow in run.series.clients.values())
            assert of_exchanges == of_clients == run.summary[way][figure]
    accepted = sum(flow.num_accepted for flow in run.series.exchanges.values())
    assert accepted == run.summary["updates"]["accepted"] == 6
    assert (run.series.clients["bob"].num_missing, run.series.clients["bob"].num_refused) == (2, 0)


def test_refused_updates_are_not_missing() -> None:
    flow = Flow()
    answers: list[Answer] = ["accepted", "refused", "refused", "missing"]
    for status in answers:
        flow.book(ClientLine(1, "x", 0, 0, "bob", status, NO_TRAFFIC, NO_TRAFFIC))
    assert (flow.num_asked, flow.num_accepted, flow.num_refused, flow.num_missing) == (4, 1, 2, 1)


def test_bytes_so_far_end_at_the_summarys(run: Run) -> None:
    total = run.summary["uplink"]["encoded_bytes"] + run.summary["downlink"]["encoded_bytes"]
    assert list(run.series.sent_bytes) == [1, 2]
    assert run.series.sent_bytes[2] == total == 2 * run.series.sent_bytes[1]


def test_of_a_metric_of_several_exchanges_the_last_that_is_known_is_kept_and_no_reason_why_it_is_not() -> None:
    def closed(index: int, loss: float | None, reason: str = "") -> ExchangeLine:
        why = {"metrics.loss": reason} if reason else UNSET
        return ExchangeLine(1, f"x{index}", index, 1.0, {"loss": loss}, [], NO_TRAFFIC, Refusals(), null_reasons=why)

    told = [closed(0, None, "nan"), closed(1, 2.0), closed(2, None, "inf")]
    for lines, expected, reasons in ((told[:1], None, {"metrics.loss": "nan"}), (told[:2], 2.0, {}), (told, 2.0, {})):
        series = gather([], lines)
        assert (series.metrics, series.null_reasons.get(1, {})) == ({"loss": {1: expected}}, reasons)


def test_the_server_halfs_metrics_are_kept_by_round(run: Run) -> None:
    assert run.series.metrics == {"loss": {1: 0.5, 2: 0.5}}


def test_a_failed_rounds_accuracy_does_not_count(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.leave()
    first, second = recorded.book.round_lines
    rounds = [read_line(first), read_line(second.replace('"completed"', '"failed"'))]
    closed = [line for line in rounds if isinstance(line, RoundLine)]
    series = gather(closed, map(read_line, recorded.book.exchange_lines))
    assert [point.round for point in series.accuracy["head"]] == [1]


def test_typical_rounds_are_the_median_and_the_slowest(run: Run) -> None:
    assert typical_rounds(run.series.rounds) == {1: "of median duration", 2: "the slowest"}
    assert typical_rounds(run.series.rounds[1:]) == {2: "the slowest"}
    assert typical_rounds([]) == {}
    first, second = run.series.rounds
    failed = msgspec.structs.replace(second, round=3, status="failed", round_s=3600.0)
    assert typical_rounds([first, second, failed]) == typical_rounds([first, second]), "it has no whole timeline"
    assert set(run.series.timeline) == {1, 2}


def test_what_is_counted_by_task_or_by_class_is_no_accuracy(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path)
    recorded.leave()
    lines = [
        line.replace('"head":', '"tested@1":7,"head@1":3,"said@0":4,"head":') for line in recorded.book.exchange_lines
    ]
    assert any("said@0" in line for line in lines)
    rounds = [line for line in map(read_line, recorded.book.round_lines) if isinstance(line, RoundLine)]
    plain = gather(rounds, map(read_line, recorded.book.exchange_lines))
    assert gather(rounds, map(read_line, lines)).accuracy == plain.accuracy
