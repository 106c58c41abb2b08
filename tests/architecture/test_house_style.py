"""Sizes, names and docstrings of the house."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import PACKAGES, ROOT, modules

MAX_LINES = 400
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "misc"}
FOREIGN_WORDS = {"worker", "node", "engine", "site", "user"}
"""What others call a client, a coordinator or a person: no thing of ours is named so."""


def faults(name: str, text: str) -> list[str]:
    """What is wrong with one module, in words."""
    found = []
    num_lines = len(text.splitlines())
    if num_lines > MAX_LINES:
        found.append(f"expected at most {MAX_LINES} lines, got {num_lines}")
    if empty := EMPTY_NAMES.intersection(name.split(".")):
        found.append(f"{empty.pop()!r} does not say what is in it")
    tree = ast.parse(text)
    if not name.rpartition(".")[2].startswith("_") and not ast.get_docstring(tree):
        found.append("has no docstring")
    foreign = [named for named in _named_in(tree) if FOREIGN_WORDS.intersection(_words(named))]
    return found + [f"{named!r} is no name for a thing of ours" for named in foreign]


def _named_in(tree: ast.AST) -> Iterator[str]:
    """All that a module gives a name to."""
    for part in ast.walk(tree):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield part.name
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id
        elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            yield part.attr
        elif isinstance(part, ast.arg):
            yield part.arg


def _words(name: str) -> set[str]:
    return {word.lower().removesuffix("s") for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name)}


def test_every_module_is_short_well_named_and_documented() -> None:
    found = {module.short_path: faults(module.name, module.path.read_text()) for module in modules()}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_tests_are_as_short() -> None:
    lines = {path: len(path.read_text().splitlines()) for path in (ROOT / "tests").rglob("*.py")}
    assert {path.name: num for path, num in lines.items() if num > MAX_LINES} == {}


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("wire.long", '"""Doc."""\n' + "x = 1\n" * MAX_LINES, "expected at most 400 lines, got 401"),
        ("wire.utils", '"""Doc."""\n', "'utils' does not say what is in it"),
        ("wire.common.tensors", '"""Doc."""\n', "'common' does not say what is in it"),
        ("wire.silent", "x = 1\n", "has no docstring"),
        ("wire.pool", '"""Doc."""\nnum_workers = 1\n', "'num_workers' is no name for a thing of ours"),
        ("wire.pool", '"""Doc."""\nclass EdgeNode: ...\n', "'EdgeNode' is no name for a thing of ours"),
        ("wire.pool", '"""Doc."""\ndef run(engine): ...\n', "'engine' is no name for a thing of ours"),
        ("wire.pool", '"""Doc."""\nx.site = 1\n', "'site' is no name for a thing of ours"),
    ],
)
def test_a_fault_is_found(name: str, text: str, fault: str) -> None:
    assert faults(name, text) == [fault]


def test_a_good_module_has_no_fault() -> None:
    assert faults("wire.good", '"""Doc."""\n' + "x = 1\n" * (MAX_LINES - 1)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_a_package_is_one(package: str) -> None:
    """Setuptools warns of any other that it takes files from."""
    folders = {path.parent for path in (ROOT / package).rglob("*") if path.is_file()}
    assert not [path for path in folders if path.name != "__pycache__" and not (path / "__init__.py").exists()]


MARKERS = re.compile(r"^(<{7}|={7}|>{7}|\|{7})( |$)", re.MULTILINE)
"""Lines that a merge leaves where two changes meet."""


def test_no_merge_was_left_half_done() -> None:
    endings = (".py", ".md", ".toml", ".yml", ".sh", ".jinja", ".js", ".service", "Makefile", "run")
    parts = [ROOT / package for package in (*PACKAGES, "tests", "deploy", ".ci")]
    texts = [*ROOT.glob("*"), *(path for part in parts for path in part.rglob("*"))]
    found = [path for path in texts if path.is_file() and path.name.endswith(endings)]
    assert ROOT / "CHANGELOG.md" in found
    assert [str(path) for path in found if MARKERS.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("mark", ["<<<<<<< HEAD", "=======", ">>>>>>> theirs"])
def test_a_merge_that_was_left_half_done_is_found(mark: str) -> None:
    assert MARKERS.search(f"one\n{mark}\nother\n")
