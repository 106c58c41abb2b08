"""Every command of ours that the kit names is one that our command line takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.cli import _parser as coordinator_parser
from edge_client.cli import _parser as client_parser

DEPLOY = Path(__file__).parents[2] / "deploy"
PARSERS = {"coordinator": coordinator_parser, "edge-client": client_parser}
SOURCES = (
    "README.md",
    "systemd/protoedge-client.service",
    "systemd/protoedge-coordinator.service",
    "docker/compose.yaml",
)


def lines(text: str) -> Iterator[str]:
    """Yield lines of code: of Markdown those of its blocks; folded lines of YAML are one."""
    blocks = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if "```" in text else [text]
    for block in blocks:
        yield from re.sub(r">-\n|\n +(?=--|&&)", " ", block).splitlines()


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each of our commands, without what is before, behind or around it."""
    for line in lines(text):
        found = re.search(
            r"(?:^|sudo -u protoedge |ExecStart=\S*/|command: +)(coordinator|edge-client) [^\"|;&#]*", line
        )
        if found:
            yield shlex.split(found[0][found.start(1) - found.start() :])


@pytest.mark.parametrize("source", SOURCES)
def test_the_command_line_takes_it(source: str) -> None:
    found = list(commands((DEPLOY / source).read_text()))
    assert found
    for name, *words in found:
        PARSERS[name]().parse_args(words)


def test_a_command_that_there_is_not_is_found() -> None:
    ((name, *words),) = commands("ExecStart=/opt/protoedge/bin/coordinator serv --config run.toml\n")
    with pytest.raises(SystemExit):
        PARSERS[name]().parse_args(words)
