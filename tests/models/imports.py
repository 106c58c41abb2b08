"""What a module imports, read from its own text."""

import ast
from importlib.util import find_spec
from pathlib import Path


def imports_torch(target: str) -> bool:
    """Whether the module of a `module:attribute` imports torch in its text, or a server half that does so."""
    found = find_spec(target.partition(":")[0])
    assert found is not None
    assert found.origin is not None
    nodes = list(ast.walk(ast.parse(Path(found.origin).read_text())))
    imported = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    halves = [name for name in imported if name.startswith("models.methods.") and name.endswith("server")]
    return any(name.split(".")[0] == "torch" for name in imported) or any(map(imports_torch, halves))
