"""D4: what a daemon imports, in a fresh interpreter each, leaves torch alone."""

import ast
import subprocess
import sys

import pytest

from tests.architecture.source import ROOT, Module, imported_names, is_within, method_names, modules

# `-I` leaves the checkout out of sys.path: an installed protoedge is imported if there is one, else this tree.
PROBE = """
import sys
sys.path.append(sys.argv[1])
import {name}
sys.exit("torch was imported" if "torch" in sys.modules else 0)
"""


def probe(name: str) -> str:
    """Import a module in a fresh interpreter; return what went wrong, if anything."""
    command = [sys.executable, "-I", "-c", PROBE.format(name=name), str(ROOT)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr


def imports_torch_openly(tree: ast.Module) -> bool:
    """Whether a module names torch in the imports that run when it is imported."""
    statements = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return any(is_within(name, "torch") for node in statements for name in imported_names(node))


def is_light(module: Module) -> bool:
    """Whether D4 speaks of this module; a `__main__` is to be run, not imported, and its `cli` is among the others."""
    if module.name.endswith(".__main__"):
        return False
    if not is_within(module.name, "models"):
        return True
    if module.name.endswith(".server"):
        return not imports_torch_openly(module.tree)
    methods = {f"models.methods.{name}" for name in method_names()}
    return module.name in {"models", "models.spec", "models.methods", "models.methods.api"} | methods


@pytest.mark.parametrize("name", [module.name for module in modules() if is_light(module)])
def test_importing_it_leaves_torch_alone(name: str) -> None:
    assert probe(name) == ""


@pytest.mark.parametrize("name", ["local_only", "fedavg", "fedproto"])
def test_baselines_have_a_light_server_half(name: str) -> None:
    assert f"models.methods.{name}.server" in {module.name for module in modules() if is_light(module)}


def test_a_module_that_imports_torch_is_found() -> None:
    pytest.importorskip("torch")
    assert "torch was imported" in probe("torch")


def test_a_module_that_cannot_be_imported_is_found() -> None:
    assert "ModuleNotFoundError" in probe("wire.no_such_module")


def test_only_an_import_that_runs_counts_as_open() -> None:
    assert imports_torch_openly(ast.parse("from torch.nn import Linear"))
    assert not imports_torch_openly(ast.parse("def late():\n    import torch"))
    assert not imports_torch_openly(ast.parse("if TYPE_CHECKING:\n    import torch"))
