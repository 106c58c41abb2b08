"""D7: nothing is ever unpickled or evaluated."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.source import imported_names, is_within, modules

UNSAFE_IMPORTS = (
    "pickle", "_pickle", "cloudpickle", "dill", "jsonpickle", "joblib", "marshal", "shelve", "torch.load", "yaml.load",
)  # fmt: skip
UNSAFE_CALLS = {"eval", "exec", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}


def unsafe_uses(tree: ast.AST) -> list[str]:
    """What in a syntax tree can run code that came as data."""
    imports = [
        f"import {name}" for name in imported_names(tree) if any(is_within(name, unsafe) for unsafe in UNSAFE_IMPORTS)
    ]
    return imports + list(_unsafe_calls(tree))


def _unsafe_calls(tree: ast.AST) -> Iterator[str]:
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        function = ast.unparse(call.func)
        flags = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        if (
            function.removeprefix("builtins.") in UNSAFE_CALLS
            or (function == "torch.load" and flags.get("weights_only") != "True")
            or flags.get("allow_pickle", "False") != "False"
        ):
            yield ast.unparse(call)


def test_nothing_runs_code_that_came_as_data() -> None:
    found = {module.short_path: unsafe_uses(module.tree) for module in modules()}
    assert {path: uses for path, uses in found.items() if uses} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "def late():\n    from marshal import loads",
        "import numpy, shelve",
        "from torch import load",
        "import dill as d",
        "eval(text)",
        "builtins.exec(text)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, weights_only=safe)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(stream)",
    ],
)
def test_an_unsafe_use_is_found(text: str) -> None:
    assert len(unsafe_uses(ast.parse(text))) == 1


@pytest.mark.parametrize(
    "text",
    ["model.eval()", "torch.load(path, weights_only=True)", "np.load(path)", "np.load(path, allow_pickle=False)"],
)
def test_a_safe_use_is_let_through(text: str) -> None:
    assert unsafe_uses(ast.parse(text)) == []
