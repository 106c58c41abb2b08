from typing import Any

import numpy as np
import pytest
import torch

from models.evaluation import evaluate
from models.methods.api import Client, ClientContext
from models.methods.faults import MethodError
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
        return torch.ones(len(features_BD), dtype=torch.int64) if rule == "ones" else SAID[rule]


def client(train_x: list[list[float]], train_y: list[int]) -> Plainest:
    made = Plainest(make_spec("any"), None)
    x, y = torch.tensor(train_x).reshape(-1, 2), torch.tensor(train_y, dtype=torch.int64)
    made.start(ClientContext("a", Plain().train(), torch.device("cpu"), x, y, np.zeros(4)))
    return made


X = torch.tensor([[3.0, 0.0], [0.0, 3.0], [2.0, 1.0]])
Y = np.array([0, 1, 1])

SAID = {
    "unsure": torch.tensor([-1, 1, 3], dtype=torch.int32),
    "above": torch.tensor([0, 104, 1]),
    "below": torch.tensor([0, -2, 1]),
    "real": torch.tensor([0.4, 1.0, 1.0]),
    "truth": torch.tensor([False, True, True]),
    "scores": torch.zeros(3, 4),
}
"""What rules say of the three samples, of which the first alone is right."""


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


def test_whole_numbers_of_any_width_and_unsure_ones_are_counted() -> None:
    assert evaluate(client([], []), X, Y, ["unsure"]) == {"unsure": 1}


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("above", "from 0 to 3, or -1, got 104"),
        ("below", "from 0 to 3, or -1, got -2"),
        ("real", "as whole numbers, got torch.float32"),
        ("truth", "as whole numbers, got torch.bool"),
        ("scores", r"of shape \(3,\), got \(3, 4\)"),
    ],
)
def test_what_are_no_class_ids_is_refused(rule: str, told: str) -> None:
    with pytest.raises(MethodError, match=f"^expected class ids of rule '{rule}' {told}$"):
        evaluate(client([], []), X, Y, [rule])


@pytest.mark.parametrize(
    ("said_B", "told"),
    [
        (np.array([0.0, 1.0, 1.0]), "as whole numbers, got float64"),
        (np.array([0, 1]), r"of shape \(3,\), got \(2,\)"),
        (np.array([0, 1, 4], np.uint16), "from 0 to 3, or -1, got 4"),
        ([0, 1, 1], "as an array, got list"),
    ],
)
def test_so_are_those_that_numpy_made(said_B: Any, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plainest, "predictions", lambda self, x, rules: {"own": said_B})
    with pytest.raises(MethodError, match=f"^expected class ids of rule 'own' {told}$"):
        evaluate(client([], []), X, Y, ["own"])
