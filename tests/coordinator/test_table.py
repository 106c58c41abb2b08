"""The table at the end of a run."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.table import WIDTH, final_table

MIB = 1 << 20


def traffic(scale: int) -> dict[str, Any]:
    return {
        "elements": 20_000 * scale,
        "predicted_elements": 20_000 * scale,
        "payload_bytes": 82_400 * scale,
        "predicted_payload_bytes": 82_400 * scale,
        "encoded_bytes": 85_000 * scale,
        "wire_bytes": 85_400 * scale,
        "resent_bytes": 0,
    }


def summary() -> dict[str, Any]:
    rule = {"best": 0.9688, "best_round": 8, "last": 0.95, "mean": {"best": 0.9612, "best_round": 7, "last": 0.94}}
    return {
        "method": "two",
        "mode": "loopback",
        "seed": 0,
        "num_rounds": 10,
        "rounds_completed": 9,
        "rounds_failed": 1,
        "num_clients": 4,
        "accuracy": {"rule": "anchor", **rule, "per_client": {"ann": 0.95}},
        "accuracy_by_rule": {"head": rule, "anchor": rule},
        "uplink": traffic(1),
        "downlink": traffic(20),
        "init": {"elements": 0, "payload_bytes": 0, "encoded_bytes": 512, "wire_bytes": 514},
        "evaluation": {"uplink": {"encoded_bytes": 100}, "downlink": {"encoded_bytes": 9_000}},
        "round_s": {"median": 0.84, "p95": 125.0},
        "coordination_s": {"median": 0.0042, "p95": 0.0125},
        "memory": {f"{kind}_peak_rss_bytes": 40 * MIB for kind in ("coordinator", "aggregator", "client", "trainer")},
        "null_reasons": {},
    }


def line_of(table: str, start: str) -> list[str]:
    """Return the cells of the one line that starts like this."""
    (line,) = [line for line in table.splitlines() if line.strip().startswith(start)]
    return [cell for cell in line.split("  ") if cell.strip()]


def test_all_figures_stand_in_their_places_and_units() -> None:
    table = final_table(summary())
    assert table.splitlines()[0] == "two (loopback): 9 of 10 rounds completed, 1 failed, 4 clients, seed 0"
    cells = {
        "head": ["head", "0.969", "8", "0.950", "0.961", "7", "0.940"],
        "anchor *": ["anchor *", "0.969", "8", "0.950", "0.961", "7", "0.940"],
        "elements": ["elements", "20,000", "20,000", "400,000", "400,000"],
        "payload": ["payload", "80.5 KiB", "80.5 KiB", "1.6 MiB", "1.6 MiB"],
        "encoded": ["encoded", "83.0 KiB", "1.6 MiB"],
        "on the wire": ["on the wire", "83.4 KiB", "1.6 MiB"],
        "run constants": ["run constants, encoded", "512 B"],
        "last evaluation": ["last evaluation, encoded", "100 B", "8.8 KiB"],
        "whole round": ["whole round", "0.84 s", "2 min 05 s"],
        "coordination": ["coordination", "4.2 ms", "12.5 ms"],
        "trainer": ["trainer", "40.0 MiB"],
    }
    found = {start: [cell.strip() for cell in line_of(table, start)] for start in cells}
    assert found == cells


def test_figures_are_aligned_to_the_right_of_their_columns() -> None:
    lines = final_table(summary()).splitlines()
    ends = {len(line) for line in lines if line.strip().startswith(("traffic", "elements", "payload"))}
    assert len(ends) == 1


def test_a_null_says_why() -> None:
    content = summary()
    content["uplink"]["wire_bytes"] = content["downlink"]["wire_bytes"] = None
    content["memory"]["aggregator_peak_rss_bytes"] = None
    content["null_reasons"] = {
        "uplink.wire_bytes": "nothing travels in a simulation",
        "memory.aggregator_peak_rss_bytes": "there was none",
    }
    table = final_table(content)
    assert "on the wire" in table
    assert line_of(table, "on the wire")[-1].strip() == "n/a (nothing travels in a simulation)"
    assert line_of(table, "aggregator")[-1].strip() == "n/a (there was none)"


def test_one_null_of_a_row_leaves_the_other_figures() -> None:
    content = summary()
    content["uplink"]["predicted_elements"] = None
    content["null_reasons"] = {"uplink.predicted_elements": "a client is unknown"}
    cells = [cell.strip() for cell in line_of(final_table(content), "elements")]
    assert cells == ["elements", "20,000", "n/a", "400,000", "400,000", "(a client is unknown)"]


def test_a_summary_without_a_figure_says_so() -> None:
    content = summary()
    del content["evaluation"]
    assert "n/a (not in the summary)" in final_table(content)


@pytest.mark.parametrize("length", [1, 40, 200])
def test_no_line_is_wider_than_the_table_may_be(length: int) -> None:
    content = summary()
    content["method"] = "m" * length
    content["accuracy_by_rule"]["r" * length] = dict.fromkeys(("best", "best_round", "last"))
    content["uplink"]["predicted_elements"] = content["coordination_s"]["median"] = None
    content["null_reasons"] = {
        "uplink.predicted_elements": "why " * length,
        f"accuracy_by_rule.{'r' * length}.best": "why " * length,
    }
    assert max(map(len, final_table(content).splitlines())) <= WIDTH == 100


def test_what_is_part_of_a_null_has_its_reason() -> None:
    content = {**summary(), "wire": None, "null_reasons": {"wire": "nothing travels"}}
    assert line_of(final_table(content), "in rounds")[-1].strip() == "n/a (nothing travels)"


TASKS = {
    "classes": [[0, 1], [2, 3]],
    "final_average_accuracy": {"head": 0.5, "anchor": None},
    "accuracy": {"head": [[0.9], [0.25, 0.75]], "anchor": [[0.8], [0.1, None]]},
}


def test_a_run_with_tasks_shows_how_it_ends_task_by_task() -> None:
    table = final_table({**summary(), "tasks": TASKS})
    rows = {"after the last task": ["head", "anchor"], "average of all tasks": ["0.500", "n/a", "(not in the summary)"]}
    rows |= {"task 1, classes 0 to 1": ["0.250", "0.100"], "task 2, classes 2 to 3": ["0.750", "n/a"]}
    found = {label: [cell.strip() for cell in line_of(table, label)[1:]] for label in rows}
    assert found == rows
    assert "over the classes seen by that round" in table
    assert "task" not in final_table(summary())


def test_a_run_with_noise_shows_the_largest_epsilon() -> None:
    clients: dict[str, dict[str, Any]] = {
        "ann": {"num_releases": 1, "epsilon": 1.25},
        "bob": {"num_releases": 11, "epsilon": 3.521},
    }
    content = {**summary(), "privacy": {"delta": 1e-5, "clients": clients}}
    assert [cell.strip() for cell in line_of(final_table(content), "the most")[1:]] == ["3.53", "11"]
    clients["bob"]["epsilon"] = None
    content["null_reasons"] = {"privacy.clients.bob.epsilon": "not installed"}
    assert [cell.strip() for cell in line_of(final_table(content), "the most")[1:]] == ["n/a", "11", "(not installed)"]
    nobody = final_table({**content, "privacy": {"delta": 1e-5, "clients": {}}})
    assert line_of(nobody, "the most")[-1].strip() == "n/a (not in the summary)"
    assert "privacy" not in final_table(summary())


def test_an_accuracy_of_fewer_clients_says_so() -> None:
    content = summary()
    content["accuracy_by_rule"]["anchor"] = {
        **content["accuracy_by_rule"]["anchor"],
        "num_clients": {"best": 3, "last": 4},
    }
    assert "anchor: best and last are of different clients: 3 and 4 of 4" in final_table(content).splitlines()


def test_what_a_run_was_started_from_stands_below_its_name() -> None:
    origin = {"run_id": "two-0", "round": 7, "global_hash": "a1"}
    assert final_table({**summary(), "init_from": origin}).splitlines()[1:3] == ["started from round 7 of two-0", ""]
    assert final_table({**summary(), "init_from": None}) == final_table(summary())
