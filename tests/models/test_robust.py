"""Robust means by hand, what an attacker can do to them, and that every method which has the option takes it up."""

from typing import Any

import numpy as np
import pytest

from models import methods
from models.methods.api import Server, Update
from models.methods.fedproto import Uplink
from models.prototypes import ClassSums
from models.robust import Aggregation, RobustMean, class_sums, robust_mean, weighted_mean
from models.spec import ConfigError, DataConfig, ModelConfig
from tests.models.federation import Federation
from tests.models.small_run import make_data, make_spec

ROBUST: tuple[Aggregation, ...] = ("trimmed_mean", "median")
ONES = np.ones(5)
TAKERS = [
    ("fedavg", {}),
    ("fedprox", {}),
    ("fedproto", {}),
    ("fedtgp", {"server_epochs": 1}),
    ("refprotofl", {}),
    ("tinyproto-fp", {"aps": False}),
    ("tinyproto-ft", {"aps": False, "server_epochs": 1}),
]


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def test_a_trimmed_mean_by_hand() -> None:
    values = column(9.0, 1.0, 2.0, -50.0, 3.0)
    assert robust_mean(values, ONES, "trimmed_mean") == [2.0]
    assert robust_mean(values, np.array([1, 1, 3, 1, 3]), "trimmed_mean") == pytest.approx([10 / 5])
    assert robust_mean(np.vstack([values, values]), np.ones(10), "trimmed_mean") == [2.0]


def test_a_median_by_hand() -> None:
    assert robust_mean(column(9, 1, 2, -50, 3), ONES, "median") == [2.0]
    assert robust_mean(column(9, 1, 2, -50, 3, 4), np.ones(6), "median") == [2.5]
    assert robust_mean(column(1, 2, 3, 4, 5), np.array([1, 1, 1, 2, 2]), "median") == [3.0]
    assert robust_mean(column(1, 2, 3, 4, 5), np.array([3, 3, 3, 1, 1]), "median") == [2.0]


@pytest.mark.parametrize("aggregation", ROBUST)
def test_each_coordinate_stands_alone(aggregation: Aggregation) -> None:
    values = np.random.default_rng(0).normal(size=(7, 4))
    alone = [robust_mean(values[:, [number]], np.ones(7), aggregation)[0] for number in range(4)]
    assert robust_mean(values, np.ones(7), aggregation).tolist() == alone
    if aggregation == "median":
        assert alone == np.median(values, axis=0).tolist()


@pytest.mark.parametrize("aggregation", ROBUST)
def test_who_claims_many_samples_weighs_no_more_than_the_median_client(aggregation: Aggregation) -> None:
    values = column(1, 2, 3, 4, 5)
    claimed, capped = np.array([2, 3, 4, 5e9, 6e9]), np.array([2, 3, 4, 4, 4])
    assert robust_mean(values, claimed, aggregation) == robust_mean(values, capped, aggregation)


@pytest.mark.parametrize("aggregation", ROBUST)
def test_a_class_of_few_clients_has_its_plain_mean_and_the_metrics_say_so(aggregation: Aggregation) -> None:
    robust, plain = class_sums(aggregation, 3, 2), class_sums("mean", 3, 2)
    random = np.random.default_rng(0)
    for client in range(5):
        classes = np.array([0, 2] if client else [0])
        held = random.normal(size=(len(classes), 2)).astype(np.float32), classes, np.arange(len(classes)) + 1 + client
        for sums in (robust, plain):
            sums.add(*held)
    (robust_CD, classes), (plain_CD, _) = robust.means(), plain.means()
    assert classes.tolist() == [0, 2]
    assert robust_CD[1].tolist() == plain_CD[1].tolist()
    assert (robust_CD[0] != plain_CD[0]).all()
    assert (robust.metrics(), plain.metrics()) == ({"num_plain_means": 1.0}, {})


@pytest.mark.parametrize("aggregation", ["mean", *ROBUST])
def test_sums_of_nothing_are_of_no_class(aggregation: Aggregation) -> None:
    means_CD, classes = class_sums(aggregation, 3, 2).means()
    assert (means_CD.shape, means_CD.dtype.name, len(classes)) == ((0, 2), "float64", 0)


def test_a_mean_holds_nothing_and_keeps_its_type() -> None:
    assert type(class_sums("mean", 3, 2)) is ClassSums
    assert not isinstance(weighted_mean("mean"), RobustMean)


def test_a_prototype_of_no_samples_has_no_holder() -> None:
    sums = class_sums("median", 1, 1)
    for value, weight in [(1.0, 1), (2.0, 1), (3.0, 1), (4.0, 1), (99.0, 0)]:
        sums.add(np.array([[value]]), np.array([0]), np.array([weight]))
    assert sums.means()[0] == [[2.5]]


def test_a_long_array_is_taken_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(6, 10))
    monkeypatch.setattr("models.robust._MAX_COLUMNS", 3)
    mean = RobustMean("median")
    for row in rows:
        mean.add(row, 1)
    assert mean.mean().tolist() == np.median(rows, axis=0).tolist()


def test_an_empty_array_stays_empty() -> None:
    mean = RobustMean("median")
    for _ in range(5):
        mean.add(np.zeros(0, np.float32), 1)
    assert mean.mean().shape == (0,)


def fedproto(aggregation: str) -> Server:
    method = methods.find("fedproto")
    spec = make_spec("fedproto", model=ModelConfig(feature_dim=20), data=DataConfig(num_clients=10))
    return method.make_server(spec, methods.read_config(method, {"aggregation": aggregation}))


@pytest.mark.parametrize("claimed", [30, 1_000_000])
def test_one_of_ten_with_prototypes_a_hundred_times_too_large_moves_only_the_mean(claimed: int) -> None:
    random = np.random.default_rng(0)
    features = 1 + random.normal(size=(10, 30, 20)) + 0.5 * random.normal(size=(10, 1, 20))  # each client drifts a bit
    deviation = features.std(axis=(0, 1))
    honest = features.mean(axis=1).astype(np.float32)
    moved = {}
    for aggregation in ("mean", *ROBUST):
        found = []
        for scale, count in ((1, 30), (100, claimed)):
            scales, counts = np.array([1] * 9 + [scale]), [30] * 9 + [count]
            sent = zip((honest * scales[:, None])[:, None], counts, strict=True)
            updates = [
                Update(f"client-{number}", count, Uplink(row, np.array([count], np.uint32), np.zeros(1, np.uint16)))
                for number, (row, count) in enumerate(sent)
            ]
            server = fedproto(aggregation)
            server.aggregate(1, "prototypes", iter(updates))
            found.append(server.arrays()["prototypes"][0])
        moved[aggregation] = np.abs(found[1] - found[0]) / deviation
    assert (moved["median"] < 1).all()
    assert (moved["trimmed_mean"] < 1).all()
    assert np.linalg.norm(moved["mean"]) > 5 * np.linalg.norm(np.ones(20))


def robust_run(name: str, own: dict[str, Any], aggregation: str) -> Federation:
    data = DataConfig(dataset="tests.models.small_run:load", public_per_class=2, public_classes=2, num_clients=5)
    spec = make_spec(name, data=data, method_config={**own, "aggregation": aggregation})
    return Federation(spec, {f"client-{number}": make_data([0, 1, 2, 3] * 2, seed=number) for number in range(5)})


@pytest.mark.parametrize(("name", "own"), TAKERS)
def test_every_method_that_has_the_option_takes_it_up(name: str, own: dict[str, Any]) -> None:
    states = []
    for aggregation in ("mean", "median"):
        run = robust_run(name, own, aggregation)
        run.round(1)
        assert run.metrics.get("num_plain_means") == (None if aggregation == "mean" else 0.0)
        states.append(run.server.arrays())
    assert any((states[0][key] != states[1][key]).any() for key in states[0])


@pytest.mark.parametrize(("name", "own"), TAKERS)
def test_too_few_clients_for_anything_but_the_mean_are_refused(name: str, own: dict[str, Any]) -> None:
    expected = "aggregation = 'median': expected 'mean', as no class has 5 clients with data.num_clients = 4"
    method = methods.find(name)
    with pytest.raises(ConfigError, match=expected):
        method.check(make_spec(name), methods.read_config(method, {**own, "aggregation": "median"}))


@pytest.mark.parametrize("name", ["tinyproto-fp", "tinyproto-ft"])
def test_scaled_prototypes_that_hide_their_counts_are_refused(name: str) -> None:
    method = methods.find(name)
    spec = make_spec(name, data=DataConfig(num_clients=10))
    with pytest.raises(ConfigError, match="expected 'mean' or aps = false, as aps hides the samples"):
        method.check(spec, methods.read_config(method, {"aggregation": "median"}))
    method.check(spec, methods.read_config(method, {"aggregation": "median", "aps": False}))
