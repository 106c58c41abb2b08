"""D1, D2, D3 and D5: who may import whom, as the contracts in `pyproject.toml` say it."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.architecture.source import ROOT, imported_names, is_within, modules

CONTRACTS = ["d1", "d1-zmq", "d2", "d3", "d5", "d5-wire", "d5-sockets"]
ZMQ_HOME = "wire.sockets"

SMALL_HOUSE = (
    "wire/__init__.py", "wire/payload.py", "wire/messages.py",
    "wire/sockets/__init__.py", "wire/sockets/zeromq.py", "wire/sockets/child.py",
    "models/__init__.py", "models/training.py",
    "coordinator/__init__.py", "coordinator/rounds.py", "coordinator/grants.py", "coordinator/store/__init__.py",
    "coordinator/clients/__init__.py", "coordinator/clients/membership.py",
    "edge_client/__init__.py", "edge_client/session.py", "edge_client/link.py",
    "edge_client/reconnect.py", "edge_client/waiting.py",
)  # fmt: skip
"""The least tree that the contracts can be run on."""

ALLOWED = {
    "wire/sockets/__init__.py": "import asyncio, time, zmq, wire.messages",
    "wire/sockets/zeromq.py": "import zmq.asyncio, wire.sockets.child",
    "models/training.py": "import pathlib\nfrom wire.payload import Payload",
    "coordinator/rounds.py": "import math, wire.messages",
    "coordinator/store/__init__.py": "import sqlite3, time, wire.sockets, coordinator.rounds, models.training",
    "edge_client/session.py": "import wire.messages",
}

BREACHES = [
    ("d1", "wire/messages.py", "from models.training import loop"),
    ("d1", "wire/sockets/__init__.py", "import coordinator"),
    ("d1-zmq", "wire/payload.py", "import zmq"),
    ("d1-zmq", "coordinator/store/__init__.py", "from zmq.auth import load_certificate"),
    ("d2", "models/training.py", "import wire.messages"),
    ("d2", "models/training.py", "import coordinator.store"),
    ("d2", "models/training.py", "def late():\n    import sqlite3"),
    ("d3", "coordinator/store/__init__.py", "import edge_client.session"),
    ("d3", "edge_client/session.py", "from coordinator import rounds"),
    ("d5", "coordinator/rounds.py", "from time import monotonic"),
    ("d5", "coordinator/clients/membership.py", "import coordinator.store"),
    ("d5", "coordinator/grants.py", "def late():\n    import threading"),
    ("d5", "edge_client/session.py", "import wire.sockets"),
    ("d5", "edge_client/reconnect.py", "from os import urandom"),
    ("d5-wire", "wire/messages.py", "import random"),
    ("d5-sockets", "wire/messages.py", "import wire.sockets"),
]


def check_contract(contract: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one contract of the `pyproject.toml` in `folder` on the packages there."""
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--contract", contract]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_contract_is_kept(contract: str) -> None:
    checked = check_contract(contract, ROOT)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("contract", CONTRACTS)
def test_contract_lets_through_what_is_allowed(contract: str, tmp_path: Path) -> None:
    checked = check_contract(contract, small_house(tmp_path, ALLOWED))
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(("contract", "path", "text"), BREACHES)
def test_contract_finds_a_breach(contract: str, path: str, text: str, tmp_path: Path) -> None:
    checked = check_contract(contract, small_house(tmp_path, ALLOWED | {path: text}))
    assert checked.returncode == 1
    assert "0 kept, 1 broken" in checked.stdout, checked.stdout + checked.stderr


def small_house(folder: Path, texts: dict[str, str]) -> Path:
    """Write the least tree with these files filled in, beside the real contracts."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    for path in SMALL_HOUSE:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(texts.get(path, ""))
    return folder


def zmq_strangers(imports: Iterable[tuple[str, ast.AST]]) -> list[str]:
    """Names of the modules that import zmq and are not its home."""
    return [
        name
        for name, tree in imports
        if any(is_within(imported, "zmq") for imported in imported_names(tree)) and not is_within(name, ZMQ_HOME)
    ]


def test_only_the_sockets_import_zmq() -> None:
    assert zmq_strangers((module.name, module.tree) for module in modules()) == []


def test_a_stranger_that_imports_zmq_is_found() -> None:
    tree = ast.parse("def connect():\n    import zmq.asyncio\n")
    assert zmq_strangers([("wire.sockets.zeromq", tree), ("coordinator.app", tree)]) == ["coordinator.app"]
