"""Kills at failure points: which points there are, and handing them to a process that is to die there."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from models.failpoints import VARIABLE
from tests.architecture.source import modules

SHARED = "models/"
"""Failure points in here are come to by trainers and by the coordinator."""

MOST_COUNTED = 8
"""How often a process may come to a point before it is killed there."""


@dataclass(frozen=True)
class Kill:
    """A process ends the `count`th time that it comes to a point.

    Processes are `coordinator` and its `aggregator`, `client-NN` and its `trainer-NN`.
    """

    process: str
    point: str
    count: int = 1


@functools.cache
def points(kind: str) -> tuple[str, ...]:
    """Return the failure points of a kind of process, `coordinator`, `aggregator`, `client` or `trainer`."""
    found = []
    for module in modules():
        if kind in _kinds(module.short_path):
            found += list(_points_in(module.tree))
    return tuple(sorted(found))


def draw_kills(seed: int, num_clients: int) -> list[Kill]:
    """Return several kills of any processes at any points, of which not all must come to happen."""
    random = Random(seed)
    processes = ["coordinator", "aggregator"]
    processes += [f"{kind}-{index:02d}" for kind in ("client", "trainer") for index in range(num_clients)]
    kills = set()
    for _ in range(random.randint(3, 6)):
        process = random.choice([*processes, *["coordinator"] * 3])
        kills.add(Kill(process, random.choice(points(process.split("-")[0])), random.randint(1, MOST_COUNTED)))
    return sorted(kills, key=str)


def _kinds(path: str) -> tuple[str, ...]:
    """Return what kinds of process come to the failure points of a file."""
    if path.startswith(SHARED):
        return ("coordinator", "trainer")
    own = {"coordinator/aggregator/child.py": "aggregator", "edge_client/trainer.py": "trainer"}
    return (own.get(path, "coordinator" if path.startswith("coordinator/") else "client"),)


def _points_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reach":
            (argument,) = node.args
            assert isinstance(argument, ast.Constant)
            yield str(argument.value)


class Tickets:
    """The kills of one run, each good for one death: see `models/failpoints.py`."""

    def __init__(self, folder: Path, kills: Iterable[Kill]) -> None:
        folder.mkdir()
        self._tickets = {kill: folder / f"{number:02d}" for number, kill in enumerate(kills)}
        for kill, ticket in self._tickets.items():
            ticket.write_text(f"{kill}\n")

    @property
    def left(self) -> list[Kill]:
        """The kills that have not happened."""
        return [kill for kill, ticket in self._tickets.items() if ticket.exists()]

    def environment(self, *processes: str) -> Mapping[str, str]:
        """Return the environment that a daemon of one of these names shares with its child of the other."""
        words = [
            f"{kill.point}={kill.count}={ticket}" for kill, ticket in self._tickets.items() if kill.process in processes
        ]
        return {VARIABLE: " ".join(words)}
