"""The one evaluation: features once per test set, then every accuracy rule on them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from models.methods.api import Client
from models.nets.net import feature_batches
from models.prototypes import local_prototypes, nearest_class


def evaluate(client: Client, x: torch.Tensor, y: torch.Tensor, rules: Sequence[str]) -> dict[str, int]:
    """Return how many of the test samples `x`, `y` each rule gets right that the client has; the net keeps its mode."""
    rules = [rule for rule in rules if client.has_rule(rule)]
    if not len(y):
        return dict.fromkeys(rules, 0)
    features_BD = torch.cat(list(feature_batches(client.context.net, x)))
    with torch.no_grad():
        return {rule: int((_predict(client, rule, features_BD) == y).sum()) for rule in rules}


def _predict(client: Client, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
    """Return predicted class ids [B], -1 where the rule cannot say."""
    if rule == "head":
        logits: torch.Tensor = client.context.net.head(features_BD)
        return logits.argmax(dim=1)
    if rule == "local_prototype":
        return _by_local_prototype(client, features_BD)
    return client.predict(rule, features_BD)


def _by_local_prototype(client: Client, features_BD: torch.Tensor) -> torch.Tensor:
    """Predict the nearest local prototype, among the classes that the client holds."""
    context, device = client.context, features_BD.device
    means = local_prototypes(context.net, context.train_x, context.train_y, client.spec.num_classes)
    prototypes_CD = torch.from_numpy(means.prototypes_CD).to(device)
    return nearest_class(features_BD, prototypes_CD, torch.from_numpy(means.classes).to(device))
