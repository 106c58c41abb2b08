"""D4: what a daemon imports, in a process of its own each, leaves torch alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, Module, imported_names, is_within, method_folders, modules

# `-I` leaves the checkout out of sys.path: an installed protoedge is imported if there is one, else this tree. Each
# module is imported in a fork of a process that holds what nearly all of them need from elsewhere, and nothing of ours.
PROBE = """
import os, sys
import asyncio, msgpack, msgspec, numpy, safetensors.numpy, zmq
sys.path.append(sys.argv[1])
for name in sys.argv[2:]:
    if child := os.fork():
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            print(f"{name}: ended with {code}", flush=True)
        continue
    try:
        __import__(name)
        fault = "torch was imported" if "torch" in sys.modules else ""
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
    if fault:
        print(f"{name}: {fault}", flush=True)
    os._exit(0)
"""


def probe(*names: str, folder: Path = ROOT) -> str:
    """Import modules, each in a process of its own; return what went wrong, if anything, a line for each."""
    command = [sys.executable, "-I", "-c", PROBE, str(folder), *names]
    probed = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return probed.stdout


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
    methods = {f"models.methods.{name}" for name in method_folders()}
    return module.name in {"models", "models.spec", "models.methods", "models.methods.api"} | methods


def test_importing_any_leaves_torch_alone() -> None:
    names = [module.name for module in modules() if is_light(module)]
    assert len(names) > 200
    assert probe(*names) == ""


@pytest.mark.parametrize("name", ["local_only", "fedavg", "fedproto"])
def test_baselines_have_a_light_server_half(name: str) -> None:
    assert f"models.methods.{name}.server" in {module.name for module in modules() if is_light(module)}


def test_a_module_that_imports_torch_is_found() -> None:
    pytest.importorskip("torch")
    assert probe("wire", "torch", "wire.limits") == "torch: torch was imported\n"


def test_a_module_that_cannot_be_imported_is_found() -> None:
    assert "wire.no_such_module: ModuleNotFoundError" in probe("wire.no_such_module")


def test_a_module_that_ends_its_process_is_found(tmp_path: Path) -> None:
    (tmp_path / "abrupt.py").write_text("import os; os._exit(7)")
    assert "abrupt: ended with 7" in probe("abrupt", folder=tmp_path)


def test_only_an_import_that_runs_counts_as_open() -> None:
    assert imports_torch_openly(ast.parse("from torch.nn import Linear"))
    assert not imports_torch_openly(ast.parse("def late():\n    import torch"))
    assert not imports_torch_openly(ast.parse("if TYPE_CHECKING:\n    import torch"))
