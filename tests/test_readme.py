"""The README's examples, links and tables, held against what there is."""

from __future__ import annotations

import re
import shlex
import signal
from pathlib import Path

import pytest

from coordinator import cli
from coordinator.method_table import format_methods
from tests.architecture.source import ROOT
from tests.integration.processes import Processes
from tests.markdown import code_blocks
from tests.test_commands import commands_of

README = (ROOT / "README.md").read_text(encoding="utf-8")

RUNS = [words for name, *words in commands_of("README.md") if words[0] in ("loopback", "simulate")]

RUN = "runs/<run_id>"
"""What stands for a run that has ended."""

SMALL = {
    "loopback": ["--set", "run.num_rounds=1", "--clients", "2"],
    "simulate": ["--set", "run.num_rounds=1"],
}
"""What makes a run short."""


def test_the_method_table_is_the_registrys() -> None:
    table = README.partition("<!-- methods -->\n\n")[2].partition("\n\n")[0]
    assert table == format_methods("markdown"), "write the output of `coordinator methods --format markdown` there"


def test_every_link_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    missing = [target for target in targets if not (ROOT / target).exists()]
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


def ended(words: list[str], folder: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a command make a short run in a folder; one process simulates in this one, which has torch already."""
    words = [str(ROOT / word) if (ROOT / word).is_file() else word for word in (*words, *SMALL[words[0]])]
    if words[0] == "loopback" or "--jobs" in words:
        run = processes.coordinator(*words)
        assert run.wait(100) == 0, run.said
        return
    monkeypatch.chdir(folder)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert cli.main(words) == 0


@pytest.mark.slow
@pytest.mark.parametrize("words", [words for words in RUNS if RUN not in words], ids=shlex.join)
def test_a_run_of_it_ends_well(
    words: list[str], tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in ("torch", "sklearn", *(["dp_accounting"] if "privacy" in "".join(words) else [])):
        pytest.importorskip(needed)
    if "ray" in words:
        pytest.skip("needs Ray, and starts it: see test_simulation_ray")
    if "run.toml" in words:
        pytest.skip("needs a pretrained net")
    if any(re.search(r"=my\w+:", word) for word in words):
        pytest.skip("needs the files beside it: see test_the_own_parts_run")
    ended(words, tmp_path, processes, monkeypatch)


@pytest.mark.slow
def test_a_run_begins_with_another(tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("torch", "sklearn"):
        pytest.importorskip(needed)
    ended(["loopback"], tmp_path, processes, monkeypatch)
    (before,) = (tmp_path / "runs").iterdir()
    others = [words for words in RUNS if RUN in words]
    assert {"--init-from", "--profiles-from"} <= {word for words in others for word in words}
    for words in others:
        ended([str(before) if word == RUN else word for word in words], tmp_path, processes, monkeypatch)
