"""Head calibration: what is sent, what the head knows, and what stays as it is."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models import methods
from models.methods.api import RoundFailedError, Update
from models.methods.headcal import Downlink, Uplink
from models.methods.headcal.global_head import GlobalHead, statistics
from models.methods.headcal.nets import Frozen
from models.methods.headcal.server import HeadcalServer, of_plain_features
from models.privacy import Release
from models.spec import ConfigError, ModelConfig, PrivacyConfig
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec
from wire.errors import RecordError

METHOD = methods.find("headcal")
EXACT: Any = SimpleNamespace(release=None)
"""The context of a client that adds no noise."""
CORNERS = np.array([[3.0, 0.0], [0.0, 3.0], [-3.0, -3.0]])


def update(client: str, labels: list[int], seed: int = 0) -> Update:
    """The uplink of a client whose features lie about the corner of their class."""
    y = np.array(labels, np.int64)
    features = CORNERS[y] + np.random.default_rng(seed).normal(size=(len(y), 2)) * 0.3
    return Update(client, len(y), statistics(features.astype(np.float32).reshape(-1, 2), y, EXACT))


def server(**config: Any) -> HeadcalServer:
    spec = make_spec("headcal", model=ModelConfig(feature_dim=2), method_config=config)
    made = METHOD.make_server(spec, methods.read_config(METHOD, config))
    assert isinstance(made, HeadcalServer)
    return made


def test_one_sided_clients_make_a_head_for_all_their_classes() -> None:
    made = server()
    told = made.aggregate(1, "statistics", iter([update("a", [0] * 9 + [1]), update("b", [1, 1, 2, 2])]))
    assert told["num_updates"] == 2
    assert told["num_classes"] == 3, "class 3 has no samples, and the one sample of class 1 on client a no Gaussian"
    head = GlobalHead(2)
    head.install(made.configure(2, "statistics"))  # type: ignore[arg-type]
    assert head.rule().predict(CORNERS).tolist() == [0, 1, 2]
    assert made.arrays()["head_counts"].tolist() == [9, 2, 2, 0]


@pytest.mark.parametrize(("scale", "offset"), [(1e-3, 0.0), (1.0, 100.0), (1e3, -1e4)])
def test_features_may_be_small_large_or_far_from_0(scale: float, offset: float) -> None:
    """An extractor that nobody has trained may give any; one learning rate does for all of them."""
    made, sent = server(), update("a", [0, 1, 2] * 4).record
    moved = Uplink(sent.means * scale + np.float32(offset), sent.variances * scale**2, sent.counts, sent.classes)
    made.aggregate(1, "statistics", iter([Update("a", 12, moved)]))
    head = GlobalHead(2)
    head.install(made.configure(2, "statistics"))  # type: ignore[arg-type]
    assert head.rule().predict(CORNERS * scale + offset).tolist() == [0, 1, 2]


def test_a_head_of_standardized_features_scores_plain_ones_alike() -> None:
    head_CH, mean_D = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]], np.float32), np.array([5.0, -7.0])
    plain = np.array([[1.0, 4.0], [-3.0, 2.0]])
    made_CH = of_plain_features(head_CH, mean_D, 2.0)
    scores = ((plain - mean_D) / 2) @ head_CH[:, :-1].T + head_CH[:, -1]
    assert plain @ made_CH[:, :-1].T + made_CH[:, -1] == pytest.approx(scores, rel=1e-6)


def test_a_client_that_stays_away_is_not_forgotten() -> None:
    made = server()
    made.aggregate(1, "statistics", iter([update("a", [0, 0])]))
    made.aggregate(2, "statistics", iter([update("b", [1, 1])]))
    assert made.arrays()["head_counts"].tolist() == [2, 2, 0, 0]
    made.aggregate(3, "statistics", iter([update("b", [1, 1, 1])]))
    assert made.arrays()["head_counts"].tolist() == [2, 3, 0, 0]


def test_without_any_gaussian_the_round_fails() -> None:
    with pytest.raises(RoundFailedError, match="round 1: none of 1 updates has a class with two samples"):
        server().aggregate(1, "statistics", iter([update("a", [0, 1])]))


def test_a_class_that_the_head_does_not_know_is_never_predicted() -> None:
    head = GlobalHead(2)
    features = np.array([[1.0, 1.0]], np.float32)
    assert head.rule().predict(features).tolist() == [-1]
    rows = np.array([[0, 0, 9], [1, 0, 0], [0, 2, 0]], np.float32)
    head.install(Downlink(rows, np.array([0, 5, 5], np.uint32)))
    assert head.rule().predict(features).tolist() == [2]
    assert head.rule(2).predict(features).tolist() == [1], "class 2 belongs to a later task"
    assert head.rule(1).predict(features).tolist() == [-1]


def test_statistics_are_of_two_samples_or_more() -> None:
    sent = statistics(np.array([[1.0, 2.0], [3.0, 2.0], [9.0, 9.0]], np.float32), np.array([1, 1, 2]), EXACT)
    assert (sent.classes.tolist(), sent.counts.tolist()) == ([1], [2])
    assert (sent.means.tolist(), sent.variances.tolist()) == ([[2.0, 2.0]], [[2.0, 0.0]])
    sent.check()
    with pytest.raises(RecordError, match="at least 2 samples"):
        Uplink(sent.means, sent.variances, np.array([1], np.uint32), sent.classes).check()
    with pytest.raises(RecordError, match="none below 0"):
        Uplink(sent.means, -sent.variances, sent.counts, sent.classes).check()


def test_a_torch_client_trains_its_head_alone() -> None:
    run = Federation(make_spec("headcal"), {name: make_data(labels) for name, labels in UNEVEN.items()})
    client: Any = run.clients["a"]
    net = client._client.context.net
    assert isinstance(net, Frozen)
    before, features = client.arrays(), client._client.train_features()
    run.round(1)
    moved = {name for name, array in client.arrays().items() if name in before and (array != before[name]).any()}
    assert {name for name in moved if not name.startswith("global")} == {"head.weight", "head.bias"}
    assert (client._client.train_features() == features).all()


def test_clients_of_different_nets_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected 'common'"):
        METHOD.check(make_spec("headcal", model=ModelConfig(init="per_client")), None)


def noised_uplink(multiplier: float) -> Uplink:
    """What a client of two classes, whose features are well within the norm, sends with so much noise."""
    spec = make_spec("headcal", privacy=PrivacyConfig(noise_multiplier=multiplier, clip_norm=10.0))
    labels = np.arange(40) % 2
    features = CORNERS[labels] + np.random.default_rng(0).normal(size=(40, 2)) * 0.3
    release = Release(spec, b"secret", "a", 1, 0)
    context: Any = SimpleNamespace(class_counts=np.array([20, 20, 0, 3]), release=release)
    return statistics(features.astype(np.float32), labels, context)


def test_with_noise_those_classes_go_up_that_were_announced_and_without_much_they_are_nearly_exact() -> None:
    quiet, exact = noised_uplink(1e-9), update("a", [0, 1] * 20).record
    assert quiet.classes.tolist() == [0, 1, 3]
    assert quiet.counts.tolist() == [20, 20, 3]
    assert quiet.means[:2] == pytest.approx(exact.means, abs=1e-4)
    assert quiet.variances[:2] == pytest.approx(exact.variances * 19 / 20, abs=1e-4)


def test_whatever_the_noise_an_uplink_is_one_that_samples_can_have_given() -> None:
    loud = noised_uplink(1000.0)
    loud.check()
    assert (np.linalg.norm(loud.means, axis=1) <= 10.0 + 1e-4).all()
    assert (loud.variances <= 100.0).all()
