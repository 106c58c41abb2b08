"""The one evaluation: features once per test set, then every accuracy rule on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from models.methods.api import Client
from models.nets.net import feature_batches
from models.prototypes import local_prototypes, nearest_class
from models.tasks import TESTED, in_task, response


def evaluate(client: Client, x: torch.Tensor, y: torch.Tensor, rules: Sequence[str]) -> dict[str, int]:
    """Return how many of the test samples `x`, `y` each rule gets right that the client has; the net keeps its mode."""
    return {rule: int((said_B == y).sum()) for rule, said_B in predictions(client, x, rules).items()}


def evaluate_by_task(
    client: Client, x: torch.Tensor, y: torch.Tensor, rules: Sequence[str], tasks: Mapping[int, range]
) -> dict[str, int]:
    """Return what `evaluate` does, and all other `models.tasks.counters` that these rules and tasks make, but zeros."""
    said = predictions(client, x, rules)
    counted = {rule: int((said_B == y).sum()) for rule, said_B in said.items()}
    for task, classes in tasks.items():
        of_task_B = (y >= classes.start) & (y < classes.stop)
        counted[in_task(TESTED, task)] = int(of_task_B.sum())
        counted |= {in_task(rule, task): int((said_B == y)[of_task_B].sum()) for rule, said_B in said.items()}
    responses = said["head"].unique(return_counts=True) if "head" in said else ()
    counted |= {response(int(label)): int(count) for label, count in zip(*responses, strict=True)}
    return {name: count for name, count in counted.items() if count or name in rules}


def predictions(client: Client, x: torch.Tensor, rules: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return what each rule that the client has takes each sample for, class ids [B], -1 where it cannot say."""
    rules = [rule for rule in rules if client.has_rule(rule)]
    if not len(x):
        return dict.fromkeys(rules, torch.zeros(0, dtype=torch.int64, device=x.device))
    features_BD = torch.cat(list(feature_batches(client.context.net, x)))
    with torch.no_grad():
        return {rule: _predict(client, rule, features_BD) for rule in rules}


def _predict(client: Client, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
    """Return predicted class ids [B], -1 where the rule cannot say."""
    if rule == "head":
        return client.predict_by_head(features_BD)
    if rule == "local_prototype":
        return _by_local_prototype(client, features_BD)
    return client.predict(rule, features_BD)


def _by_local_prototype(client: Client, features_BD: torch.Tensor) -> torch.Tensor:
    """Predict the nearest local prototype, among the classes that the client holds."""
    context, device = client.context, features_BD.device
    means = local_prototypes(context.net, context.train_x, context.train_y, client.spec.num_classes)
    prototypes_CD = torch.from_numpy(means.prototypes_CD).to(device)
    return nearest_class(features_BD, prototypes_CD, torch.from_numpy(means.classes).to(device))
