"""The numbers for programs."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path

from coordinator.report.numbers import to_csv, to_json
from coordinator.report.reading import Run, read_run
from tests.coordinator.report.runs import RecordedRun


def test_json_holds_the_summary_and_each_round(run: Run) -> None:
    (told,) = json.loads(to_json([run]))["runs"]
    assert told["summary"] == run.summary
    assert told["config"] == run.config
    first, second = told["rounds"]
    assert first["accuracy"]["head"]["weighted"] == 0.8
    assert (
        first["uplink"]["payload_bytes"] + second["uplink"]["payload_bytes"] == run.summary["uplink"]["payload_bytes"]
    )
    assert second["sent_bytes"] == run.series.sent_bytes[2]
    assert second["metrics"] == {"loss": 0.5}
    assert told["clients"]["ann"]["num_accepted"] == 4
    assert set(told["exchanges"]) == {"means", "weights"}


def test_csv_has_a_row_for_each_round_of_each_run(run: Run) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv([run, run]))))
    assert [row["round"] for row in rows] == ["1", "2", "1", "2"]
    assert {row["run_id"] for row in rows} == {run.folder.run_id}
    assert float(rows[0]["accuracy.head.weighted"]) == 0.8
    assert rows[1]["accuracy.anchor.weighted"] == ""
    sent = sum(int(row["uplink.encoded_bytes"]) for row in rows[:2])
    assert sent == run.summary["uplink"]["encoded_bytes"]
    assert [row["metric.loss"] for row in rows[:2]] == ["0.5", "0.5"]


def test_a_metric_that_is_unknown_is_null_with_the_reason_and_empty_in_csv(run: Run) -> None:
    told = {"metrics.loss": "aggregate returned inf"}
    series = dataclasses.replace(run.series, metrics={"loss": {1: None, 2: 0.5}}, null_reasons={1: told})
    run = dataclasses.replace(run, series=series)
    first, second = json.loads(to_json([run]))["runs"][0]["rounds"]
    assert (first["metrics"], first["null_reasons"]) == ({"loss": None}, told)
    assert (second["metrics"], second["null_reasons"]) == ({"loss": 0.5}, {})
    assert [row["metric.loss"] for row in csv.DictReader(io.StringIO(to_csv([run])))] == ["", "0.5"]


def test_csv_says_last_how_many_clients_have_tested(run: Run) -> None:
    anchor = [run.series.accuracy["anchor"][0]._replace(num_clients=1)]
    other = dataclasses.replace(run, series=dataclasses.replace(run.series, accuracy={"anchor": anchor}))
    rows = list(csv.DictReader(io.StringIO(to_csv([run, other]))))
    *before, head, local, anchor_column = rows[0]
    assert [head, local, anchor_column] == [f"num_clients.{rule}" for rule in ("head", "local_prototype", "anchor")]
    assert not any(name.startswith("num_clients") for name in before)
    assert [row["num_clients.anchor"] for row in rows] == ["2", "", "1", ""]
    assert [row["num_clients.local_prototype"] for row in rows] == ["1", "1", "", ""]


def test_in_a_simulation_coordination_is_unknown_and_empty(tmp_path: Path) -> None:
    run = read_run(RecordedRun(tmp_path, mode="simulate").end().path)
    assert [round["coordination_s"] for round in json.loads(to_json([run]))["runs"][0]["rounds"]] == [None, None]
    assert {row["coordination_s"] for row in csv.DictReader(io.StringIO(to_csv([run])))} == {""}


def test_the_peaks_of_a_round_are_in_its_row(run: Run) -> None:
    run.series.peaks["trainer"] = {2: 700}
    rows = list(csv.DictReader(io.StringIO(to_csv([run]))))
    assert [row["trainer_peak_rss_bytes"] for row in rows] == ["", "700"]
