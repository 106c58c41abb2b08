"""D6: nobody outside `models/methods/` knows a method by its name."""

import ast
from collections.abc import Collection

from models import methods
from tests.architecture.source import imported_names, is_within, method_folders, modules


def known_methods(tree: ast.AST, names: Collection[str]) -> list[str]:
    """What in a syntax tree is a method's name: string literals equal to one, and imports from its folder."""
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    literals = [value for value in constants if isinstance(value, str) and value in names]
    folders = [f"models.methods.{name}" for name in names]
    return literals + [name for name in imported_names(tree) if any(is_within(name, folder) for folder in folders)]


def test_no_method_is_named_outside_its_folder() -> None:
    strangers = [module for module in modules() if not is_within(module.name, "models.methods")]
    known = {*method_folders(), *methods.names()}
    assert {"tinyproto", "tinyproto-fp", "fedgen"} <= known
    found = {module.short_path: known_methods(module.tree, known) for module in strangers}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_named_method_is_found() -> None:
    text = 'from models.methods.alpha import server\nif method == "alpha": pass\nsay(f"{x} uses alpha", "alphabet")\n'
    assert known_methods(ast.parse(text), {"alpha"}) == ["alpha", "models.methods.alpha.server"]
