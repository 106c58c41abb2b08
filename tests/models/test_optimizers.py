"""Numpy's optimizers beside torch's."""

from typing import Any

import numpy as np
import pytest
import torch

from models.optimizers import optimizer_of
from models.spec import TrainingConfig

SETTINGS: list[dict[str, Any]] = [
    {"momentum": 0.0},
    {"momentum": 0.9, "weight_decay": 0.01},
    {"optimizer": "adam", "lr": 0.01, "weight_decay": 0.1},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_steps_are_those_of_torch(settings: dict[str, Any]) -> None:
    config = TrainingConfig(**settings)
    random = np.random.default_rng(0)
    start = random.normal(size=(3, 4)).astype(np.float32)
    theirs = torch.nn.Parameter(torch.from_numpy(start.copy()))
    made: torch.optim.Optimizer = (
        torch.optim.Adam([theirs], lr=config.lr, weight_decay=config.weight_decay)
        if config.optimizer == "adam"
        else torch.optim.SGD([theirs], lr=config.lr, momentum=config.momentum, weight_decay=config.weight_decay)
    )
    ours, optimizer = {"weight": start.copy()}, optimizer_of(config)
    for _ in range(5):
        gradient = random.normal(size=(3, 4)).astype(np.float32)
        optimizer.step(ours, {"weight": gradient})
        theirs.grad = torch.from_numpy(gradient)
        made.step()
    assert ours["weight"].dtype == np.float32
    assert np.allclose(ours["weight"], theirs.detach().numpy(), atol=1e-6)
    assert not np.allclose(ours["weight"], start, atol=1e-3)


def test_a_parameter_without_a_gradient_stays() -> None:
    parameters = {"one": np.ones(2, np.float32), "other": np.ones(2, np.float32)}
    optimizer_of(TrainingConfig(weight_decay=0.5)).step(parameters, {"one": np.ones(2, np.float32)})
    assert parameters["other"].tolist() == [1.0, 1.0]
    assert parameters["one"].tolist() != [1.0, 1.0]
