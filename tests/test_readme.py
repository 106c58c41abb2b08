"""The README's examples, links and tables, held against what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coordinator.method_table import format_methods
from tests.integration.processes import Processes
from tests.markdown import code_blocks

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_method_table_is_the_registrys() -> None:
    table = README.partition("<!-- methods -->\n\n")[2].partition("\n\n")[0]
    assert table == format_methods("markdown"), "write the output of `coordinator methods --format markdown` there"


def test_every_link_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    missing = [target for target in targets if not (Path(__file__).parent.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("own", ["mynet:Tiny", pytest.param("mymethod:METHOD", marks=pytest.mark.slow)])
def test_the_own_parts_run(own: str, tmp_path: Path, processes: Processes) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    for block in code_blocks(README, "python"):
        name = block.splitlines()[0].removeprefix("# ")
        (tmp_path / name).write_text(block)
    (command,) = [block for block in code_blocks(README) if own in block]
    words = command.split()[1:]
    run = processes.coordinator(*words, "--set", "run.num_rounds=2", "--set", "data.num_clients=2")
    assert run.wait(60) == 0, run.said
    assert run.summary["accuracy"]["best"] > 0.5
    for way in ("uplink", "downlink"):
        assert run.summary[way]["elements"] == run.summary[way]["predicted_elements"]
