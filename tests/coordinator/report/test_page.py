"""The pages: self-contained, escaped, and with the figures of the summary."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("jinja2")

from coordinator.metrics.links import LinkCounts
from coordinator.report.comparison import comparison_page, differing_settings
from coordinator.report.page import run_page
from coordinator.report.reading import Run, read_run
from coordinator.units import show_accuracy, show_bytes, show_count, show_mebibytes, show_seconds
from tests.coordinator.report.runs import RecordedRun

BAD = "<script>alert('x')</script>"


class Reader(HTMLParser):
    """Reads the rows of all tables, and which tags and outside addresses there are."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self._cell: list[str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "srcset", "xlink:href")]
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            self.rows[-1].append(" ".join("".join(self._cell).split()))
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def row(self, label: str) -> list[str]:
        """Return the cells of the first row that begins so."""
        return next(row[1:] for row in self.rows if row and row[0] == label)


def test_the_figures_are_the_summarys(run: Run) -> None:
    page, told = Reader(run_page(run)), run.summary
    anchor, up, down = told["accuracy_by_rule"]["anchor"], told["uplink"], told["downlink"]
    assert page.row("anchor ★") == [
        show(peak[key])
        for peak in (anchor, anchor["mean"])
        for show, key in ((show_accuracy, "best"), (show_count, "best_round"), (show_accuracy, "last"))
    ]
    by_kind: dict[str, tuple[Callable[[float], str], str]] = {
        "elements": (show_count, "elements"),
        "payload": (show_bytes, "payload_bytes"),
    }
    for label, (show, key) in by_kind.items():
        assert page.row(label) == [show(way[name]) for way in (up, down) for name in (key, f"predicted_{key}")]
    for label, key in (("encoded", "encoded_bytes"), ("on the wire", "wire_bytes"), ("sent again", "resent_bytes")):
        assert page.row(label) == [show_bytes(up[key]), "", show_bytes(down[key]), ""]
    assert page.row("whole") == [show_seconds(told["round_s"][key]) for key in ("median", "p95")]
    assert page.row("coordination") == [show_seconds(told["coordination_s"][key]) for key in ("median", "p95")]
    assert page.row("updates accepted") == [show_count(told["updates"]["accepted"]), ""]
    assert page.row("client")[:1] == ["accuracy"]
    assert page.row("aggregator")[0] == show_mebibytes(told["memory"]["aggregator_peak_rss_bytes"])
    assert page.row("bob")[1:7] == ["5", "30", "2", "2", "0", "2"]


def test_what_the_server_half_told_is_there(run: Run) -> None:
    series = dataclasses.replace(run.series, metrics={"loss": {1: 0.25, 2: 1 / 3}, "hidden": {1: None}})
    page = Reader(run_page(dataclasses.replace(run, series=series)))
    assert page.row("loss") == ["0.3333", "2", "0.25", "0.3333"]
    assert not any(row[:1] == ["hidden"] for row in page.rows)


def test_traffic_says_whose_updates_are_counted(run: Run) -> None:
    assert "up are those of accepted updates" in run_page(run)


def test_a_figure_that_is_not_known_says_why(run: Run) -> None:
    page = Reader(run_page(run))
    assert page.row("trainer") == ["n/a", "not measured here"]
    assert page.row("energy") == ["n/a", "ann: its sensors did not answer all the time"]


def test_a_figure_that_is_part_of_a_null_has_its_reason(tmp_path: Path) -> None:
    text = run_page(read_run(RecordedRun(tmp_path, mode="simulate").end().path))
    for what in ("rounds", "evaluation", "all else"):
        row = text[text.index(f"<th>on the wire: {what}</th>") :].partition("</tr>")[0]
        assert re.findall(r'title="([^"]*)"', row) == ["nothing travels in a simulation"] * 2


def test_nothing_comes_from_outside_and_nothing_is_run(run: Run) -> None:
    for text in (run_page(run), comparison_page([run, run])):
        page = Reader(text)
        assert {address for address in page.addresses if not address.startswith(("#", "data:,"))} == set()
        assert not {"script", "iframe", "object", "embed", "img"}.intersection(page.tags)
        assert not re.search(r"@import|url\(", text)


def test_all_sections_are_filled(run: Run) -> None:
    text = run_page(run)
    assert 'class="none"' not in text
    assert text.count('class="lane"') == 2 * 3
    assert "direction 1: 75% of the variance" in text
    assert Reader(text).row("ann")  # of the clients; the samples come later
    assert ["ann", "10", "20", "", "", "30", "4"] in Reader(text).rows


def test_what_comes_from_a_run_is_escaped(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path, f'data.root="{BAD}"', classes=[BAD, '"><u>', "c", "d"])
    recorded.write_prototypes()
    folder = recorded.end()
    for path in (folder.summary_path, folder.histogram_path):
        path.write_text(path.read_text().replace("ann", BAD.replace('"', "'")))
    run = read_run(folder.path)
    run.series.clients[BAD] = run.series.clients.pop("ann")
    for text in (run_page(run), comparison_page([run, run])):
        assert "<script" not in text
        assert "<u>" not in text
    assert "&lt;script&gt;" in run_page(run)


def test_a_run_that_has_just_begun_has_a_page(tmp_path: Path) -> None:
    recorded = RecordedRun(tmp_path, num_rounds=0)
    text = run_page(read_run(recorded.leave().path))
    assert "unfinished" in text
    assert text.count('class="none"') == 5


def test_a_simulation_says_that_clients_take_turns(tmp_path: Path) -> None:
    run = read_run(RecordedRun(tmp_path, mode="simulate").end().path)
    text = run_page(run)
    assert "clients take turns" in text
    assert Reader(text).row("on the wire") == ["n/a", "", "n/a", ""]


def test_a_comparison_has_a_row_for_each_run_and_what_differs(run: Run, tmp_path: Path) -> None:
    other = read_run(RecordedRun(tmp_path, "training.lr=0.5").end().path)
    page = Reader(comparison_page([run, other]))
    for one in (run, other):
        shown = page.row(one.folder.run_id)
        assert shown[5:7] == [show_accuracy(one.summary["accuracy"][key]) for key in ("best", "last")]
        assert shown[9] == show_bytes(one.summary["uplink"]["encoded_bytes"])
    assert page.row("training.lr") == ["0.05", "0.5"]
    assert list(differing_settings([run, other])) == ["training.lr"]
    assert differing_settings([run, run]) == {}


def measured(run: Run) -> Run:
    """Return a run of which the kernel, sensors and devices have something to say."""
    link = {
        **dict.fromkeys(LinkCounts.__struct_fields__),
        "up_bytes": 7168,
        "own_up_bytes": 7000,
        "up_difference_bytes": 168,
    }
    way = {"rounds_bytes": 7000, "evaluation_bytes": 0, "other_bytes": 168}
    device = {"board": "Jetson Orin Nano", "memory_bytes": 8 * 2**30, "has_unified_memory": True}
    ann = {**run.summary["clients"]["ann"], "energy_j": 31.0, "gpu_peak_bytes": 5 * 2**20, "device": device}
    run.series.peaks["trainer"] = {1: 2**20, 2: 2**21}
    told = {
        "wire": {"source": "kernel", "uplink": way, "downlink": way, "clients": {"ann": link}},
        "energy": {"total_j": 31.0, "measured_j": 31.0},
        "clients": {**run.summary["clients"], "ann": ann},
    }
    return dataclasses.replace(run, summary={**run.summary, **told})


def test_connections_devices_and_energy_are_told(run: Run) -> None:
    text = run_page(measured(run))
    page = Reader(text)
    assert page.row("on the wire: all else") == ["168 B", "", "168 B", ""]
    assert ["ann", "7.0 KiB", "6.8 KiB", "168"] in [row[:4] for row in page.rows]
    assert page.row("energy")[0] == "31.0 J"
    (device,) = [row for row in page.rows if row[:2] == ["ann", "Jetson Orin Nano"]]
    assert device[5:10] == [
        "8.0 GiB, unified: GPU and CPU share it",
        "n/a",
        "n/a",
        "5.0 MiB of unified memory",
        "31.0 J",
    ]
    assert "Peak memory of each round" in text


def test_of_a_device_that_says_what_cannot_be_nothing_is_shown(run: Run) -> None:
    run.summary["clients"]["ann"]["device"] = {"memory_bytes": "<script>", "board": 5}
    assert "<script" not in run_page(run)


def test_a_run_of_an_older_program_has_a_page(run: Run) -> None:
    newer = ("wire", "time_s", "energy", "gpu_peak_bytes", "clients")
    older = {key: value for key, value in run.summary.items() if key not in newer}
    page = Reader(run_page(dataclasses.replace(run, summary=older)))
    assert page.row("energy")[0] == "n/a"


def test_what_a_run_was_started_from_is_shown(run: Run) -> None:
    origin = {"run_id": "two-0", "round": 7, "global_hash": "a1"}
    later = dataclasses.replace(run, summary={**run.summary, "init_from": origin})
    assert "started from round 7 of two-0" in run_page(later)
    assert "started from" not in run_page(run)
    assert differing_settings([run, later]) == {"init_from": ["", "round 7 of two-0"]}


def test_a_run_with_tasks_shows_how_it_ends_task_by_task(run: Run) -> None:
    tasks = {
        "classes": [[0, 1], [2, 3]],
        "final_average_accuracy": {"head": 0.5, "anchor": None},
        "accuracy": {"head": [[0.9], [0.25, 0.75]], "anchor": [[0.8], [0.1, None]]},
    }
    text = run_page(dataclasses.replace(run, summary={**run.summary, "tasks": tasks}))
    page = Reader(text)
    assert page.row("after the last task") == ["head", "anchor"]
    assert page.row("average of all tasks") == ["0.500", "n/a"]
    assert page.row("task 2, classes 2 to 3") == ["0.750", "n/a"]
    assert "over the classes seen by that round" in text
    assert "after the last task" not in run_page(run)


def test_accuracies_of_fewer_clients_say_so(run: Run) -> None:
    anchor = {**run.summary["accuracy_by_rule"]["anchor"], "num_clients": {"best": 1, "last": 2}}
    rules = {**run.summary["accuracy_by_rule"], "anchor": anchor}
    text = run_page(dataclasses.replace(run, summary={**run.summary, "accuracy_by_rule": rules}))
    assert "anchor: best and last are of different clients: 1 and 2 of 2" in text


def test_a_comparison_says_of_accuracies_what_the_page_of_a_run_says(run: Run) -> None:
    accuracy = {**run.summary["accuracy"], "num_clients": {"best": 1, "last": 2}}
    fewer = dataclasses.replace(run, summary={**run.summary, "accuracy": accuracy})
    text = comparison_page([fewer, fewer])
    page = Reader(text)
    shown = [show_accuracy(accuracy[key]) for key in ("best", "last")]
    assert page.row(run.folder.run_id)[5:7] == [f"{each} [1]" for each in shown]
    assert text.count("[1] anchor: best and last are of different clients: 1 and 2 of 2") == 1
    assert "[1]" not in comparison_page([run])


def test_the_point_of_a_run_is_at_the_bytes_sent_by_the_round_of_its_best_accuracy(run: Run) -> None:
    assert (run.summary["accuracy"]["best_round"], max(run.series.sent_bytes)) == (1, 2)
    best, sent = run.summary["accuracy"]["best"], run.series.sent_bytes[1]
    text = comparison_page([run])
    assert f"{run.folder.run_id}: {show_accuracy(best)} after {show_bytes(sent)}" in text
    assert "best accuracy over encoded bytes until then (B)" in text


def test_a_run_whose_best_round_has_lost_its_accounts_has_no_point(run: Run) -> None:
    head = run.series.accuracy["head"][1:]
    series = dataclasses.replace(run.series, rounds=run.series.rounds[1:], accuracy={"head": head})
    summary = {**run.summary, "accuracy": {**run.summary["accuracy"], "rule": "head"}}
    text = comparison_page([dataclasses.replace(run, series=series, summary=summary)])
    assert "Accuracy over bytes" in text
    assert "Accuracy against bytes" not in text


def test_a_batched_run_is_marked(run: Run) -> None:
    batched = dataclasses.replace(run, summary={**run.summary, "batched": True})
    assert "loopback, batched" in run_page(batched)
    page = Reader(comparison_page([batched]))
    assert page.row(run.folder.run_id)[1] == "loopback, batched"
    assert ", batched" not in run_page(run)
