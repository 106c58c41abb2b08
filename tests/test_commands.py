"""Every command of ours that a document or the kit names is one that our command line takes."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator

import pytest

from coordinator.cli import _parser as coordinator_parser
from edge_client.cli import _parser as client_parser
from tests.architecture.source import ROOT
from tests.markdown import code_blocks

PARSERS = {"coordinator": coordinator_parser, "edge-client": client_parser}

SOURCES = (
    "README.md",
    "CONTRIBUTING.md",
    "models/methods/README.md",
    "deploy/README.md",
    "deploy/systemd/protoedge-client.service",
    "deploy/systemd/protoedge-coordinator.service",
    "deploy/docker/compose.yaml",
)

START = re.compile(r"(?m)(?:^(?:\$ )?|\bprotoedge |ExecStart=\S*/|command: +)(?=(?:coordinator|edge-client) )")
"""What stands before a command: a prompt, an account or an image that is to run it, or a unit's key."""

FOLD = re.compile(r"\\\n *|>-\n *|\n +(?=--)")
"""What a command goes on over: a line that ends in a backslash, or YAML that is folded."""


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each of our commands, up to a comment or the next command."""
    folded = FOLD.sub(" ", text)
    for found in START.finditer(folded):
        lexer = shlex.shlex(folded[found.end() :].partition("\n")[0], posix=True, punctuation_chars=";|&")
        lexer.whitespace_split = True
        yield list(itertools.takewhile(lambda word: not set(word) <= set(";|&"), lexer))


def commands_of(source: str) -> list[list[str]]:
    """Return the commands in a file, those of Markdown from its code blocks."""
    text = (ROOT / source).read_text(encoding="utf-8")
    return list(commands("\n".join(code_blocks(text)) if source.endswith(".md") else text))


@pytest.mark.parametrize("source", SOURCES)
def test_the_command_line_takes_it(source: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name, *words in commands_of(source):
        try:
            PARSERS[name]().parse_args(words)
        except SystemExit:
            pytest.fail(f"{source}: {shlex.join([name, *words])}: {capsys.readouterr().err}")


def test_all_that_a_person_needs_first_is_named() -> None:
    named = {tuple(words[:2]) for words in commands_of("README.md")}
    assert {("coordinator", name) for name in ("loopback", "simulate", "serve", "status", "methods")} <= named
    assert {("edge-client", name) for name in ("run", "doctor", "keys")} <= named


@pytest.mark.parametrize("source", [source for source in SOURCES if source.startswith("deploy/")])
def test_the_kit_names_commands(source: str) -> None:
    assert commands_of(source)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("coordinator report runs/<run_id>   # again\n", ["report", "runs/<run_id>"]),
        ("$ coordinator stop RUN; coordinator runs\n", ["stop", "RUN"]),
        ('coordinator simulate \\\n    --set \'a.b=["c", "d"]\' | tee\n', ["simulate", "--set", 'a.b=["c", "d"]']),
        ("sudo -u protoedge coordinator keys list && true\n", ["keys", "list"]),
        ("ExecStart=/opt/protoedge/bin/coordinator serve --resume-last\n", ["serve", "--resume-last"]),
        ("  command: coordinator runs\n", ["runs"]),
        ("    command: >-\n      coordinator serve\n      --config run.toml\n", ["serve", "--config", "run.toml"]),
    ],
)
def test_a_command_is_known_in_each_form(text: str, words: list[str]) -> None:
    assert list(commands(text)) == [["coordinator", *words]]


def test_a_command_that_there_is_not_is_found() -> None:
    ((name, *words),) = commands("ExecStart=/opt/protoedge/bin/coordinator serv --config run.toml\n")
    with pytest.raises(SystemExit):
        PARSERS[name]().parse_args(words)
