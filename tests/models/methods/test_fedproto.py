from typing import Any

import numpy as np
import pytest
import torch

from models import methods
from models.methods.api import RoundFailedError, Server, Update
from models.methods.fedproto import Config, Downlink, Uplink
from models.methods.fedproto.client import FedProtoClient
from models.spec import ModelConfig
from models.training import Batch
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec
from tests.models.test_evaluation import client as plain_client

METHOD = methods.find("fedproto")


def server(**config: Any) -> Server:
    return METHOD.make_server(make_spec("fedproto", model=ModelConfig(feature_dim=2)), Config(**config))


def update(client: str, classes: list[int], counts: list[int], prototypes: list[list[float]]) -> Update:
    record = Uplink(
        np.array(prototypes, np.float32).reshape(-1, 2), np.array(counts, np.uint32), np.array(classes, np.uint16)
    )
    return Update(client, sum(counts), record)


def held(made: Server) -> dict[int, list[float]]:
    arrays = made.arrays()
    return dict(zip(arrays["classes"].tolist(), arrays["prototypes"].tolist(), strict=True))


TWO = [update("a", [0], [990], [[0.0, 8.0]]), update("b", [0], [10], [[1.0, 4.0]])]


def test_prototypes_are_weighted_by_counts() -> None:
    made = server()
    assert made.aggregate(1, "prototypes", iter(TWO)) == {"num_updates": 2.0, "num_classes": 1.0}
    assert held(made)[0] == pytest.approx([0.01, 7.96], abs=1e-7)


def test_prototypes_may_be_weighted_equally() -> None:
    made = server(weighting="uniform")
    made.aggregate(1, "prototypes", iter(TWO))
    assert held(made) == {0: [0.5, 6.0]}


@pytest.mark.parametrize("weighting", ["counts", "uniform"])
def test_a_prototype_of_no_samples_has_no_weight(weighting: str) -> None:
    made = server(weighting=weighting)
    made.aggregate(1, "prototypes", iter([TWO[1], update("c", [0, 1], [0, 0], [[9.0, 9.0], [9.0, 9.0]])]))
    assert held(made) == {0: [1.0, 4.0]}


def test_a_class_that_nobody_sent_keeps_its_last_prototype_or_stays_absent() -> None:
    made = server()
    made.aggregate(1, "prototypes", iter([update("a", [0, 2], [1, 1], [[1.0, 1.0], [2.0, 2.0]])]))
    made.aggregate(2, "prototypes", iter([update("a", [1, 2], [1, 1], [[5.0, 5.0], [6.0, 6.0]])]))
    assert held(made) == {0: [1.0, 1.0], 1: [5.0, 5.0], 2: [6.0, 6.0]}


@pytest.mark.parametrize("updates", [[], [update("a", [], [], [])], [update("a", [1], [0], [[1.0, 1.0]])]])
def test_a_round_without_any_weight_fails_and_changes_nothing(updates: list[Update]) -> None:
    made = server()
    made.aggregate(1, "prototypes", iter(TWO))
    before = held(made)
    with pytest.raises(RoundFailedError, match=f"round 2: none of {len(updates)} updates has a prototype"):
        made.aggregate(2, "prototypes", iter(updates))
    assert held(made) == before


def test_before_the_first_round_nothing_goes_down() -> None:
    sent = server().configure(1, "prototypes").to_payload()
    assert sent.sizes == (0, 0)
    assert sent.arrays["prototypes"].shape == (0, 2)


def client(weight: float = 1.0) -> FedProtoClient:
    """A client whose samples are their own features, of dimension 2."""
    made = FedProtoClient(make_spec("fedproto", model=ModelConfig(feature_dim=2)), Config(regularizer_weight=weight))
    context = plain_client([[1.0, 0.0], [3.0, 2.0], [0.0, 1.0]], [0, 0, 3]).context
    made.start(context)
    context.net.features = lambda x: x  # type: ignore[method-assign]
    return made


def cross_entropy_of(made: FedProtoClient, batch: Batch) -> float:
    return torch.nn.functional.cross_entropy(made.context.net.head(batch.x), batch.y).item()


DOWN = Downlink(np.array([[0.0, 0.0], [1.0, 1.0]], np.float32), np.array([0, 1], np.uint16))


def test_the_loss_by_hand() -> None:
    """Squares 1 + 4 and 4 + 0 over a batch of two and two dimensions: 9 / 4."""
    made = client(weight=2.0)
    made.receive("prototypes", DOWN)
    batch = Batch(torch.tensor([[1.0, 2.0], [3.0, 1.0]]), torch.tensor([0, 1]))
    assert made.loss(batch).item() - cross_entropy_of(made, batch) == pytest.approx(2 * 9 / 4, abs=1e-5)


def test_a_class_without_a_global_prototype_has_no_term() -> None:
    """Of three samples one has a term: (1 + 4) / (3 * 2)."""
    made = client()
    made.receive("prototypes", DOWN)
    batch = Batch(torch.tensor([[1.0, 2.0], [3.0, 1.0], [7.0, 7.0]]), torch.tensor([0, 2, 3]))
    assert made.loss(batch).item() - cross_entropy_of(made, batch) == pytest.approx(5 / 6, abs=1e-5)


@pytest.mark.parametrize(("weight", "received"), [(1.0, False), (0.0, True)])
def test_without_prototypes_or_weight_the_loss_is_cross_entropy_alone(weight: float, received: bool) -> None:
    made = client(weight)
    if received:
        made.receive("prototypes", DOWN)
    batch = Batch(torch.tensor([[1.0, 2.0]]), torch.tensor([0]))
    assert made.loss(batch).item() == cross_entropy_of(made, batch)


def test_the_uplink_by_hand() -> None:
    record = client().uplink("prototypes")
    assert isinstance(record, Uplink)
    assert record.classes.tolist() == [0, 3]
    assert record.counts.tolist() == [2, 1]
    assert record.prototypes.tolist() == [[2.0, 1.0], [0.0, 1.0]]
    assert [record.classes.dtype.name, record.counts.dtype.name] == ["uint16", "uint32"]


def test_only_known_classes_are_predicted_by_global_prototypes() -> None:
    made = client()
    features = torch.tensor([[0.9, 0.9], [-5.0, 0.0]])
    assert made.predict("global_prototype", features).tolist() == [-1, -1]
    made.receive("prototypes", DOWN)
    assert made.predict("global_prototype", features).tolist() == [1, 0]


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="no accuracy rule 'oracle'"):
        client().predict("oracle", torch.zeros(1, 2))


def test_the_last_global_prototypes_are_part_of_the_state() -> None:
    made, other = client(), client()
    made.receive("prototypes", DOWN)
    other.load(made.arrays())
    features = torch.tensor([[0.9, 0.9]])
    assert other.predict("global_prototype", features).tolist() == [1]


def test_elements_are_those_of_the_paper() -> None:
    """Up: sum of K_i x d; down: classes known x d to every client."""
    run = Federation(make_spec("fedproto"), {name: make_data(labels) for name, labels in UNEVEN.items()})
    run.round(1)
    (second,) = run.round(2)
    assert {name: payload.sizes.elements for name, payload in second.uplinks.items()} == {
        "a": 3 * 6,
        "b": 2 * 6,
        "c": 1 * 6,
        "d": 0,
    }
    assert second.downlink.sizes == (3 * 6, 3 * 6 * 4 + 3 * 2)
    assert second.uplinks["a"].sizes.payload_bytes == 3 * 6 * 4 + 3 * 4 + 3 * 2
