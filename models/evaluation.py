"""The one evaluation: how many test samples each accuracy rule gets right, whatever its predictions are made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models.methods.api import Client
from models.methods.faults import MethodError, expect
from models.tasks import TESTED, in_task, response


def evaluate(client: Client, x: Any, y: np.ndarray, rules: Sequence[str]) -> dict[str, int]:
    """Return how many of the test samples `x`, `y` each rule gets right that the client has."""
    return {rule: int((said_B == y).sum()) for rule, said_B in _said(client, x, rules).items()}


def evaluate_by_task(
    client: Client, x: Any, y: np.ndarray, rules: Sequence[str], tasks: Mapping[int, range]
) -> dict[str, int]:
    """Return what `evaluate` does, and all other `models.tasks.counters` that these rules and tasks make, but zeros."""
    said = _said(client, x, rules)
    counted = {rule: int((said_B == y).sum()) for rule, said_B in said.items()}
    for task, classes in tasks.items():
        of_task_B = (y >= classes.start) & (y < classes.stop)
        counted[in_task(TESTED, task)] = int(of_task_B.sum())
        counted |= {in_task(rule, task): int((said_B == y)[of_task_B].sum()) for rule, said_B in said.items()}
    responses = np.unique(said["head"], return_counts=True) if "head" in said else ()
    counted |= {response(int(label)): int(count) for label, count in zip(*responses, strict=True)}
    return {name: count for name, count in counted.items() if count or name in rules}


def _said(client: Client, x: Any, rules: Sequence[str]) -> dict[str, np.ndarray]:
    said = client.predictions(x, [rule for rule in rules if client.has_rule(rule)])
    for rule, said_B in said.items():
        _check_ids(rule, said_B, len(x), len(client.context.class_counts))
    return said


def _check_ids(rule: str, said_B: Any, num_samples: int, num_classes: int) -> None:
    """Refuse what are no class ids of these samples: no accuracy would say so, it would be low.

    Raises:
        MethodError: the text names the rule, what was expected and what came.
    """
    what = f"class ids of rule {rule!r}"
    ids_B = expect(np.ndarray, said_B, f"{what} as an array")
    if ids_B.shape != (num_samples,):
        raise MethodError(f"expected {what} of shape {(num_samples,)}, got {ids_B.shape}")
    if ids_B.dtype.kind not in "iu":
        raise MethodError(f"expected {what} as whole numbers, got {ids_B.dtype}")
    if num_samples and not (-1 <= (least := ids_B.min()) <= (most := ids_B.max()) < num_classes):
        raise MethodError(f"expected {what} from 0 to {num_classes - 1}, or -1, got {least if least < -1 else most}")
