"""The numbers for programs."""

from __future__ import annotations

import csv
import io
import json

from coordinator.report.numbers import to_csv, to_json
from coordinator.report.reading import Run


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
