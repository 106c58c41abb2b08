"""Evaluating with very many classes takes memory for a bounded part of the samples at a time."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models.linear_rules import LinearRule
from wire.sockets.memory import ProcessMemory

NUM_CLASSES = 60_000
NUM_SAMPLES = 1_000
MOST_BYTES = 100 * 1024**2
"""Of samples by classes there are 229 MiB of float32."""


def peak_bytes(work: Callable[[], object]) -> int:
    """Return how far the process's memory grows while something is done."""
    memory = ProcessMemory()
    if not memory.forget_peak():
        pytest.skip("the system does not let a peak begin anew")
    before = memory.peak_bytes()
    work()
    after = memory.peak_bytes()
    assert before is not None
    assert after is not None
    return after - before


def test_a_linear_rule() -> None:
    rule = LinearRule(
        np.eye(NUM_CLASSES, 2, dtype=np.float32), np.zeros(NUM_CLASSES, np.float32), np.arange(NUM_CLASSES)
    )
    features_BD = np.tile(np.eye(2, dtype=np.float32), (NUM_SAMPLES // 2, 1))
    said: list[np.ndarray] = []
    assert peak_bytes(lambda: said.append(rule.predict(features_BD))) < MOST_BYTES
    np.testing.assert_array_equal(said[0], np.tile([0, 1], NUM_SAMPLES // 2))


def test_a_nets_own_head() -> None:
    torch = pytest.importorskip("torch")
    from models.prediction import predictions

    head = torch.nn.Linear(2, NUM_CLASSES)
    net = SimpleNamespace(features=lambda x: x, head=head, training=False, eval=lambda: None, train=lambda mode: None)

    def predict_by_head(features_BD: Any) -> Any:
        return head(features_BD).argmax(dim=1)

    client: Any = SimpleNamespace(context=SimpleNamespace(net=net), predict_by_head=predict_by_head)
    x = torch.randn(NUM_SAMPLES, 2)
    assert peak_bytes(lambda: predictions(client, x, ["head"])) < MOST_BYTES
    with torch.no_grad():
        assert torch.equal(predictions(client, x[:9], ["head"])["head"], predict_by_head(x[:9]))


def test_the_nearest_prototype() -> None:
    torch = pytest.importorskip("torch")
    from models.prototypes import nearest_class

    prototypes_CD = torch.arange(12_000, dtype=torch.float32)[:, None].repeat(1, 50)
    labels_B = torch.arange(0, 12_000, 40)
    features_BD, classes = prototypes_CD[labels_B] + 0.1, torch.arange(12_000)
    assert peak_bytes(lambda: nearest_class(features_BD, prototypes_CD, classes)) < MOST_BYTES
    assert torch.equal(nearest_class(features_BD[:9], prototypes_CD, classes), labels_B[:9])


def test_the_mean_feature_of_each_class() -> None:
    torch = pytest.importorskip("torch")
    from models.prototypes import local_prototypes

    head = torch.nn.Linear(2, NUM_CLASSES)
    net: Any = SimpleNamespace(
        features=lambda x: x, head=head, training=False, eval=lambda: None, train=lambda mode: None
    )
    x, y = torch.randn(NUM_SAMPLES, 2), torch.arange(NUM_SAMPLES) + 50_000
    assert peak_bytes(lambda: local_prototypes(net, x, y, NUM_CLASSES)) < MOST_BYTES
    np.testing.assert_array_equal(local_prototypes(net, x, y, NUM_CLASSES).prototypes_CD, x.numpy())
