"""Results are kept and come back whole, and the page says what is in them."""

from pathlib import Path

import msgspec
import pytest

from tests.benchmarks.figure import Figure
from tests.benchmarks.page import PAGE, page
from tests.benchmarks.result import Claim, Curve, Findings, Group, Plot, Result, Table, read_all, shown

FINDINGS = Findings(
    about=["Two clients."],
    tables=[Table("Bytes", ["method", "up"], [["a|b", "12"], ["c", ""]], note="In all rounds.")],
    claims=[Claim("less than before", True, "3 < 4"), Claim("more than others", None, "no others")],
    figures=[
        Figure.of("round", "ms", [2.0, 4.0, 3.0], target=3.0, limit=1.5, limit_name="bare"),
        Figure.of("accuracy", "%", [98.0], target=97.0, at_least=True),
    ],
    plots=[Plot("Growth", "clients", "ms", [Curve("ours", [(1.0, 2.0), (10.0, 20.0)])])],
)


def result(group: Group = "limits", name: str = "limits_rounds") -> Result:
    return Result(group, name, "Rounds", "python -m rounds", "2026-01-02", {"cores": 2, "numpy": None}, FINDINGS)


def test_results_come_back_as_they_were_kept(tmp_path: Path) -> None:
    kept = [result(), result("runtime", "runtime_crowd")]
    for each in kept:
        each.write(tmp_path)
    assert read_all(tmp_path) == kept


@pytest.mark.parametrize(
    "line",
    [
        "### Rounds",
        "- [Beside the limits](#beside-the-limits)",
        "All of it with cores 2.",
        "- [Rounds](#rounds)",
        "`python -m rounds`, 2026-01-02",
        "Two clients.",
        "**Bytes**",
        r"| a\|b | 12 |",
        "| c |  |",
        "In all rounds.",
        "- less than before: **holds** (3 < 4)",
        "- more than others: **cannot be told** (no others)",
        "| round (ms) | 3 | 2 to 4 | 3 | under 3 | 2 x bare (1.5) | missed |",
        "| accuracy (%) | 98 |  | 1 | at least 97 |  | reached |",
        "![Growth](tests/benchmarks/results/limits_rounds-0.svg)",
    ],
)
def test_the_page_has_all_that_a_result_says(line: str) -> None:
    assert line in page([result()]).splitlines()


def test_the_page_has_the_groups_in_its_own_order_and_none_that_is_empty() -> None:
    lines = page([result("runtime", "runtime_crowd"), result()]).splitlines()
    assert [line for line in lines if line.startswith("## ")] == [
        "## Beside the limits",
        "## The runtime's own figures",
        "## Not run",
    ]


def test_what_is_not_the_same_in_a_whole_group_stands_with_each_result() -> None:
    busy = msgspec.structs.replace(result(), machine={"cores": 2, "load_1min": 7.5})
    lines = page([result(), busy]).splitlines()
    assert "All of it with cores 2." in lines
    assert "`python -m rounds`, 2026-01-02, load_1min 7.5" in lines


def test_a_terminal_shows_cells_in_columns() -> None:
    lines = shown(FINDINGS).splitlines()
    start = lines.index("Bytes")
    assert lines[start : start + 5] == ["Bytes", "method  up", "----------", "a|b     12", "c"]


def test_the_page_in_the_repository_is_that_of_the_results_there() -> None:
    assert PAGE.read_text() == page(read_all()), "run `python -m tests.benchmarks.page`"
