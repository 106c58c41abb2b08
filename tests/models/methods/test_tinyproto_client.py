from typing import Any

import numpy as np
import pytest
import torch

from models import methods
from models.checkpoint import state_hash
from models.methods.tinyproto import Downlink, TgpDownlink, Uplink
from models.methods.tinyproto.client import TinyProtoClient
from models.methods.tinyproto.cps import write_masks
from models.spec import ModelConfig
from models.training import Batch
from tests.models.small_run import make_spec
from tests.models.test_evaluation import client as plain_client
from wire.payload import short_digest

KEPT = np.array([[0], [1], [0], [1]])
"""Of two features, classes 0 and 2 keep the first, 1 and 3 the second."""


def client(name: str = "tinyproto-fp", **config: Any) -> TinyProtoClient:
    """A client whose samples are their own features, of dimension 2; it holds two of class 0 and one of class 3."""
    method = methods.find(name)
    spec = make_spec(name, model=ModelConfig(feature_dim=2))
    made = method.make_client(spec, methods.read_config(method, {"prototype_dim": 1, **config}))
    assert isinstance(made, TinyProtoClient)
    context = plain_client([[1.0, 0.0], [3.0, 2.0], [0.0, 1.0]], [0, 0, 3]).context
    kept = KEPT if config.get("cps", True) else np.array([[0, 1]] * 4)
    context.constants = {"masks": write_masks(kept, 2)}
    made.start(context)
    context.net.features = lambda x: x  # type: ignore[method-assign]
    return made


DOWN = Downlink(np.array([[2.0], [4.0]], np.float32), np.array([0, 1], np.uint16), 0.5)
"""Sparse prototypes [2, 0] of class 0 and [0, 4] of class 1."""

BATCH = Batch(torch.tensor([[1.0, 2.0], [3.0, 1.0], [7.0, 7.0]]), torch.tensor([0, 1, 2]))


def regulariser(made: TinyProtoClient) -> float:
    """What the global prototypes add to the loss of a batch."""
    alone = made.loss(BATCH).item()
    made.receive("prototypes", DOWN)
    return made.loss(BATCH).item() - alone


def test_the_squared_error_by_hand() -> None:
    """Squares 1 + 4 and 9 + 9, zeros outside the masks included, over three samples and two features."""
    assert regulariser(client(regularizer_weight=3.0)) == pytest.approx(3 * 23 / 6, abs=1e-5)


def test_the_distance_by_hand() -> None:
    made = client(regularizer="l2", regularizer_weight=3.0)
    assert regulariser(made) == pytest.approx(3 * (5**0.5 + 18**0.5) / 3, abs=1e-5)


def test_a_distance_of_zero_has_a_finite_gradient() -> None:
    made = client(regularizer="l2")
    made.receive("prototypes", DOWN)
    features = torch.tensor([[2.0, 0.0]], requires_grad=True)
    made.loss(Batch(features, torch.tensor([0]))).backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()


def test_a_term_of_weight_zero_is_not_there() -> None:
    assert regulariser(client(regularizer_weight=0.0)) == 0.0


def test_lambda_follows_the_regulariser_unless_it_is_set() -> None:
    assert client().regularizer_weight == 2 / 50
    assert client(regularizer="l2").regularizer_weight == 1.0
    assert client(regularizer="l2", regularizer_weight=7.0).regularizer_weight == 7.0


@pytest.mark.parametrize(
    ("config", "prototypes"),
    [
        ({}, [[0.5 * 2 * 2.0], [0.5 * 1 * 1.0]]),
        ({"aps": False}, [[2.0], [1.0]]),
        ({"cps": False}, [[0.5 * 2 * 2.0, 0.5 * 2 * 1.0], [0.0, 0.5 * 1 * 1.0]]),
        ({"cps": False, "aps": False}, [[2.0, 1.0], [0.0, 1.0]]),
    ],
)
def test_the_uplink_by_hand(config: dict[str, Any], prototypes: list[list[float]]) -> None:
    made = client(**config)
    made.receive("prototypes", Downlink(np.zeros((0, len(prototypes[0])), np.float32), np.zeros(0, np.uint16), 0.5))
    record = made.uplink("prototypes")
    assert isinstance(record, Uplink)
    assert record.classes.tolist() == [0, 3]
    assert record.prototypes.tolist() == prototypes
    assert record.masks == short_digest(state_hash(made.context.constants["masks"]))


def test_global_prototypes_are_compared_with_their_zeros() -> None:
    made = client()
    features = torch.tensor([[2.0, 0.0], [0.0, 9.0], [0.0, 0.1]])
    assert made.predict("global_prototype", features).tolist() == [-1, -1, -1]
    made.receive("prototypes", DOWN)
    assert made.predict("global_prototype", features).tolist() == [0, 1, 0]


def test_trained_prototypes_of_classes_that_nobody_uploaded_are_left_out() -> None:
    made, other = client("tinyproto-ft"), client()
    made.receive("prototypes", TgpDownlink(np.array([[2.0], [4.0], [9.0], [9.0]], np.float32), DOWN.classes, DOWN.mu))
    other.receive("prototypes", DOWN)
    assert state_hash(made.arrays()) == state_hash(other.arrays())


def test_sparse_prototypes_are_part_of_the_state() -> None:
    made, other = client(), client()
    made.receive("prototypes", DOWN)
    other.load(made.arrays())
    assert other.predict("global_prototype", torch.tensor([[0.0, 9.0]])).tolist() == [1]
