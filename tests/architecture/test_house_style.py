"""Sizes, names and docstrings of the house."""

import ast

import pytest

from tests.architecture.source import modules

MAX_LINES = 400
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "misc"}


def faults(name: str, text: str) -> list[str]:
    """What is wrong with one module, in words."""
    found = []
    num_lines = len(text.splitlines())
    if num_lines > MAX_LINES:
        found.append(f"expected at most {MAX_LINES} lines, got {num_lines}")
    if empty := EMPTY_NAMES.intersection(name.split(".")):
        found.append(f"{empty.pop()!r} does not say what is in it")
    if not name.rpartition(".")[2].startswith("_") and not ast.get_docstring(ast.parse(text)):
        found.append("has no docstring")
    return found


def test_every_module_is_short_well_named_and_documented() -> None:
    found = {module.short_path: faults(module.name, module.path.read_text()) for module in modules()}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("wire.long", '"""Doc."""\n' + "x = 1\n" * MAX_LINES, "expected at most 400 lines, got 401"),
        ("wire.utils", '"""Doc."""\n', "'utils' does not say what is in it"),
        ("wire.common.tensors", '"""Doc."""\n', "'common' does not say what is in it"),
        ("wire.silent", "x = 1\n", "has no docstring"),
    ],
)
def test_a_fault_is_found(name: str, text: str, fault: str) -> None:
    assert faults(name, text) == [fault]


def test_a_good_module_has_no_fault() -> None:
    assert faults("wire.good", '"""Doc."""\n' + "x = 1\n" * (MAX_LINES - 1)) == []
