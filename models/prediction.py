"""What each accuracy rule takes samples for, by a torch net: features once per test set, then every rule on them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch

from models.linear_rules import rows_at_a_time
from models.methods.api import Client
from models.methods.faults import MethodError, expect
from models.nets.net import feature_batches
from models.prototypes import nearest_class

_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def predictions(client: Client, x: torch.Tensor, rules: Sequence[str]) -> dict[str, torch.Tensor]:
    """Return class ids [B] by rule, -1 where one cannot say; the net keeps its mode."""
    if not len(x):
        return dict.fromkeys(rules, torch.zeros(0, dtype=torch.int64, device=x.device))
    features_BD = torch.cat(list(feature_batches(client.context.net, x)))
    with torch.no_grad():
        return {rule: _predict(client, rule, features_BD) for rule in rules}


def _predict(client: Client, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
    if rule == "local_prototype":
        return _by_local_prototype(client, features_BD)
    predict = client.predict_by_head if rule == "head" else functools.partial(client.predict, rule)
    rows = rows_at_a_time(client.context.net.head.out_features)
    said_B = torch.empty(len(features_BD), dtype=torch.int64, device=features_BD.device)
    for chunk_BD, chunk_said_B in zip(features_BD.split(rows), said_B.split(rows), strict=True):
        said = expect(torch.Tensor, predict(chunk_BD), f"class ids of rule {rule!r} as a tensor")
        if said.shape != chunk_said_B.shape:
            expected = f"class ids of rule {rule!r} of shape {tuple(chunk_said_B.shape)}"
            raise MethodError(f"expected {expected}, got {tuple(said.shape)}")
        if said.dtype not in _WHOLE:
            raise MethodError(f"expected class ids of rule {rule!r} as whole numbers, got {said.dtype}")
        chunk_said_B[:] = said
    return said_B


def _by_local_prototype(client: Client, features_BD: torch.Tensor) -> torch.Tensor:
    """Predict the nearest local prototype, among the classes that the client holds."""
    means, device = client.local_prototypes(), features_BD.device
    prototypes_CD = torch.from_numpy(means.prototypes_CD).to(device)
    return nearest_class(features_BD, prototypes_CD, torch.from_numpy(means.classes).to(device))
