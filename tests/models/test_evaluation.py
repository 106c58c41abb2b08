from typing import Any

import numpy as np
import torch

from models.evaluation import evaluate
from models.methods.api import Client, ClientContext
from models.nets.net import Net
from tests.models.small_run import make_spec
from wire.payload import Nothing, Record


class Plain(Net):
    """Samples are their own features; the head prefers the larger of the two."""

    def __init__(self) -> None:
        super().__init__(2, 4)
        self.passes = 0
        with torch.no_grad():
            self.head.weight.copy_(torch.eye(4, 2))
            self.head.bias.copy_(torch.tensor([0.0, 0.0, -9.0, -9.0]))

    def features(self, x: torch.Tensor) -> torch.Tensor:
        assert not self.training
        assert not torch.is_grad_enabled()
        self.passes += 1
        return x


class Plainest(Client):
    """Says class 1 for everything, by its one rule."""

    def receive(self, exchange: str, downlink: Any) -> None:
        pass

    def uplink(self, exchange: str) -> Record:
        return Nothing()

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        assert rule == "ones"
        return torch.ones(len(features_BD), dtype=torch.int64)


def client(train_x: list[list[float]], train_y: list[int]) -> Plainest:
    made = Plainest(make_spec("any"), None)
    x, y = torch.tensor(train_x).reshape(-1, 2), torch.tensor(train_y, dtype=torch.int64)
    made.start(ClientContext("a", Plain().train(), torch.device("cpu"), x, y, np.zeros(4)))
    return made


X = torch.tensor([[3.0, 0.0], [0.0, 3.0], [2.0, 1.0]])
Y = np.array([0, 1, 1])


def test_rules_by_hand() -> None:
    made = client([[2.9, 0.2], [2.0, 1.2]], [0, 1])
    assert evaluate(made, X, Y, ["head", "local_prototype", "ones"]) == {"head": 2, "local_prototype": 3, "ones": 2}
    assert evaluate(made, X[2:], Y[2:], ["head", "local_prototype", "ones"]) == {
        "head": 0,
        "local_prototype": 1,
        "ones": 1,
    }


def test_only_classes_that_the_client_holds_are_candidates() -> None:
    assert evaluate(client([[2.0, 2.0]], [3]), X, np.array([3, 3, 0]), ["local_prototype"]) == {"local_prototype": 2}


def test_a_client_without_train_samples_gets_nothing_right_by_prototypes() -> None:
    assert evaluate(client([], []), X, Y, ["head", "local_prototype"]) == {"head": 2, "local_prototype": 0}


def test_no_test_samples_give_zero() -> None:
    assert evaluate(client([[1.0, 1.0]], [0]), X[:0], Y[:0], ["head", "local_prototype"]) == {
        "head": 0,
        "local_prototype": 0,
    }


def test_features_are_computed_once_and_the_mode_is_restored() -> None:
    made = client([[1.0, 1.0]], [0])
    evaluate(made, X, Y, ["head", "ones"])
    assert made.context.net.passes == 1
    assert made.context.net.training
