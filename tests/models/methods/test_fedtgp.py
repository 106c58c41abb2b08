import math
from typing import Any

import numpy as np
import pytest
import torch

from models import methods
from models.checkpoint import state_hash
from models.methods.api import RoundFailedError, Server, Update
from models.methods.fedtgp import Config, Downlink, Uplink
from models.methods.fedtgp.client import FedTgpClient
from models.methods.fedtgp.nets import tgp_loss, tgp_margin
from models.methods.fedtgp.server import Uploads
from models.spec import ConfigError, ModelConfig
from models.training import Batch
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec
from tests.models.test_evaluation import client as plain_client
from wire.errors import RecordError

METHOD = methods.find("fedtgp")

MEANS = np.array(
    [
        [-2.248, -2.186, 2.914, -0.106, -0.108],
        [1.024, -0.842, -0.458, 0.85, 0.564],
        [-2.318, 1.666, -1.18, -2.112, -1.8],
        [-0.782, 3.254, -2.352, 0.32, -4.276],
    ]
)


def server(num_classes: int = 4, feature_dim: int = 2, **config: Any) -> Server:
    spec = make_spec("fedtgp", num_classes, model=ModelConfig(feature_dim=feature_dim))
    return METHOD.make_server(spec, Config(**{"server_epochs": 20, **config}))


def update(client: str, classes: list[int], prototypes: list[list[float]]) -> Update:
    record = Uplink(np.array(prototypes, np.float32).reshape(-1, 2), np.array(classes, np.uint16))
    return Update(client, 10, record)


TWO = [update("a", [0, 1], [[4.0, 0.0], [0.0, 4.0]]), update("b", [1, 2], [[0.0, 6.0], [4.0, 4.0]])]


def test_the_margin_by_hand() -> None:
    gaps = [min(np.linalg.norm(MEANS[own] - MEANS[other]) for other in range(4) if other != own) for own in range(4)]
    assert tgp_margin(MEANS, 100.0) == pytest.approx(max(gaps), abs=1e-12)
    assert tgp_margin(MEANS, 100.0) == pytest.approx(5.024761088847907, abs=1e-12)


def test_the_margin_is_at_most_the_threshold_and_that_for_a_lone_class() -> None:
    assert tgp_margin(MEANS, 1.0) == 1.0
    assert tgp_margin(MEANS[:1], 100.0) == 100.0


def test_the_loss_by_hand() -> None:
    """Distances 5, with the margin 7, and 1: the loss is log(1 + e^6)."""
    uploads, prototypes = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    loss = tgp_loss(uploads, torch.tensor([0]), prototypes, 2.0)
    assert loss.item() == pytest.approx(math.log1p(math.exp(6)), abs=1e-5)


@pytest.mark.parametrize("num_uploads", [1, 40])
def test_a_prototype_that_meets_its_upload_has_a_finite_gradient(num_uploads: int) -> None:
    prototypes = torch.tensor([[1.0, 2.0], [1e4, -3e4]], requires_grad=True)
    uploads = prototypes.detach().repeat(num_uploads, 1)
    loss = tgp_loss(uploads, torch.tensor([0, 1]).repeat(num_uploads), prototypes, 1.0)
    loss.backward()
    assert loss.isfinite()
    assert prototypes.grad is not None
    assert prototypes.grad.isfinite().all()


def test_means_are_taken_class_by_class() -> None:
    means, classes = Uploads.of(TWO).means()
    assert classes.tolist() == [0, 1, 2]
    assert means.tolist() == [[4.0, 0.0], [0.0, 5.0], [4.0, 4.0]]


def test_training_leads_each_upload_to_its_own_class() -> None:
    """With a margin of all classes' own distance the loss cannot fall below log 3."""
    made = server(feature_dim=16, server_lr=0.1)
    uploads = [Update("a", 10, Uplink(5 * np.eye(3, 16, dtype=np.float32), np.arange(3, dtype=np.uint16)))]
    losses = [made.aggregate(number, "prototypes", iter(uploads))["loss"] for number in (1, 2, 3)]
    assert math.log(3) < losses[-1] < 1.3 < losses[0]
    down = made.configure(4, "prototypes")
    assert isinstance(down, Downlink)
    distances = np.linalg.norm(5 * np.eye(3, 16)[:, None] - down.prototypes, axis=2)
    assert distances.argmin(axis=1).tolist() == [0, 1, 2]
    assert (distances.min(axis=1) < 2.5).all()


def test_metrics_tell_margin_and_loss() -> None:
    told = server().aggregate(1, "prototypes", iter(TWO))
    assert told["num_updates"] == 2.0
    assert told["num_classes"] == 3.0
    assert told["margin"] == pytest.approx(math.hypot(4.0, 1.0))
    assert told["loss"] > 0


def test_all_prototypes_go_down_and_the_classes_that_were_ever_uploaded() -> None:
    made = server()
    counted = []
    for number, updates in enumerate([[TWO[0]], [TWO[1]]], start=1):
        down = made.configure(number, "prototypes").to_payload()
        counted.append((down.sizes.elements, down.arrays["classes"].tolist()))
        made.aggregate(number, "prototypes", iter(updates))
    assert counted == [(8, []), (8, [0, 1])]
    assert made.arrays()["classes"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("updates", [[], [update("a", [], [])]])
def test_a_round_without_prototypes_fails_and_changes_nothing(updates: list[Update]) -> None:
    made = server()
    made.aggregate(1, "prototypes", iter(TWO))
    before = state_hash(made.arrays())
    with pytest.raises(RoundFailedError, match=f"round 2: none of {len(updates)} updates has a prototype"):
        made.aggregate(2, "prototypes", iter(updates))
    assert state_hash(made.arrays()) == before


def test_training_that_diverges_fails_the_round_and_changes_nothing() -> None:
    made = server(server_lr=1e38)
    before = state_hash(made.arrays())
    with pytest.raises(RoundFailedError, match=r"round 1: the global prototypes diverged; lower \[method\] server_lr"):
        made.aggregate(1, "prototypes", iter(TWO))
    assert state_hash(made.arrays()) == before


def test_a_lone_class_is_refused() -> None:
    with pytest.raises(ConfigError, match="fedtgp: expected at least 2 classes"):
        server(num_classes=1)


def test_a_prototype_that_is_no_number_is_refused_and_the_others_go_on() -> None:
    bad = update("c", [0, 3], [[1.0, 1.0], [np.nan, 0.0]]).record
    with pytest.raises(RecordError, match="'prototypes', class 3: expected finite values, got nan"):
        Uplink.from_payload(bad.to_payload(), {"K": 4, "D": 2})
    assert server().aggregate(1, "prototypes", iter(TWO))["num_updates"] == 2.0


@pytest.mark.parametrize(
    ("dims", "expected"), [({"K": 2, "D": 2}, "class ids below 2, got 2"), ({"K": 4, "D": 3}, "expected D = 3, got 2")]
)
def test_another_label_map_or_width_is_refused(dims: dict[str, int], expected: str) -> None:
    with pytest.raises(RecordError, match=expected):
        Uplink.from_payload(TWO[1].record.to_payload(), dims)


def client(**config: Any) -> FedTgpClient:
    """A client whose samples are their own features, of dimension 2."""
    made = FedTgpClient(make_spec("fedtgp", model=ModelConfig(feature_dim=2)), Config(**config))
    made.start(plain_client([[1.0, 0.0], [3.0, 2.0], [0.0, 1.0]], [0, 0, 3]).context)
    made.context.net.features = lambda x: x  # type: ignore[method-assign]
    return made


DOWN = Downlink(np.array([[0.0, 0.0], [9.0, 9.0], [1.0, 1.0], [5.0, 5.0]], np.float32), np.array([0, 2], np.uint16))


def test_a_class_that_nobody_uploaded_has_no_term_and_is_never_predicted() -> None:
    made = client(regularizer_weight=2.0)
    batch = Batch(torch.tensor([[1.0, 2.0], [3.0, 1.0]]), torch.tensor([2, 3]))
    alone = made.loss(batch).item()
    made.receive("prototypes", DOWN)
    assert made.loss(batch).item() - alone == pytest.approx(2 * (0 + 1) / 4, abs=1e-5)
    assert made.predict("global_prototype", torch.tensor([[8.0, 8.0], [-1.0, 0.0]])).tolist() == [2, 0]


def test_the_uplink_tells_no_counts() -> None:
    record = client().uplink("prototypes")
    assert isinstance(record, Uplink)
    assert record.classes.tolist() == [0, 3]
    assert record.prototypes.tolist() == [[2.0, 1.0], [0.0, 1.0]]


@pytest.mark.parametrize(("feature_dim", "weight"), [(500, 10.0), (50, 1.0)])
def test_lambda_follows_the_feature_dimension(feature_dim: int, weight: float) -> None:
    spec = make_spec("fedtgp", model=ModelConfig(feature_dim=feature_dim))
    assert FedTgpClient(spec, Config()).regularizer_weight == weight
    assert FedTgpClient(spec, Config(regularizer_weight=0.3)).regularizer_weight == 0.3


def test_elements_are_those_of_the_paper() -> None:
    """Up: sum of K_i x d; down: K x d to every client, in every round."""
    run = Federation(make_spec("fedtgp"), {name: make_data(labels) for name, labels in UNEVEN.items()})
    for number in (1, 2):
        (done,) = run.round(number)
        assert sum(payload.sizes.elements for payload in done.uplinks.values()) == (3 + 2 + 1 + 0) * 6
        assert done.downlink.sizes.elements == 4 * 6
