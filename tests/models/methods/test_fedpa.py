"""Both halves together: what travels, what it equals, and the server half's own arithmetic."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models import methods
from models.data import ClientData
from models.methods.api import RoundFailedError, Update
from models.methods.fedpa import Config, Uplink, scheduled
from models.methods.fedpa.generator_training import GeneratorTraining, Teachers
from models.methods.fedpa.server import FedPaServer
from models.spec import ModelConfig
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec
from wire.errors import RecordError

NUM_CLASSES, FEATURE_DIM = 4, 2
HEAD = NUM_CLASSES * (FEATURE_DIM + 1)


def server(**config: Any) -> FedPaServer:
    return FedPaServer(make_spec("fedpa", model=ModelConfig(feature_dim=FEATURE_DIM)), Config(hidden_dim=8, **config))


def update(client: str, counts: list[int], value: float, classes: list[int] | None = None, at: int = 1) -> Update:
    """An update all of whose numbers are the same; one parameter stands before the classifier and one behind it."""
    held = [label for label, count in enumerate(counts) if count] if classes is None else classes
    parameters = np.full(HEAD + 2 if any(counts) else 0, value, np.float32)
    buffers = np.full(1 if any(counts) else 0, value, np.float32)
    prototypes = np.full((len(held), FEATURE_DIM), value, np.float32)
    record = Uplink(parameters, buffers, prototypes, np.array(held, np.uint16), np.array(counts, np.uint32), at)
    return Update(client, sum(counts), record)


def held(made: FedPaServer) -> dict[int, list[float]]:
    arrays = made.arrays()
    return dict(zip(arrays["classes"].tolist(), arrays["prototypes"].tolist(), strict=True))


@pytest.fixture
def taught(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Teachers, int]]:
    """What generators are trained with and at which age, instead of being trained."""
    seen: list[tuple[Teachers, int]] = []

    def train(self: GeneratorTraining, teachers: Teachers, round: int, age: int) -> dict[str, float]:
        seen.append((teachers, age))
        return {}

    monkeypatch.setattr(GeneratorTraining, "train", train)
    return seen


def test_prototypes_and_models_are_averaged_by_their_samples(taught: list[tuple[Teachers, int]]) -> None:
    made = server()
    updates = [update("a", [2, 0, 0, 1], 1.0), update("b", [6, 1, 0, 0], 5.0), update("c", [0, 0, 0, 0], 0.0)]
    told = made.aggregate(1, "model", iter(updates))
    assert (told["num_updates"], told["num_train"]) == (3.0, 10.0)
    assert held(made) == {0: [4.0, 4.0], 1: [5.0, 5.0], 3: [1.0, 1.0]}
    assert made.arrays()["parameters"].tolist() == pytest.approx([3.8] * (HEAD + 2))
    assert made.arrays()["buffers"].tolist() == pytest.approx([3.8])


def test_the_generator_is_taught_by_each_client_with_the_new_prototypes(taught: list[tuple[Teachers, int]]) -> None:
    server().aggregate(1, "model", iter([update("a", [3, 0, 0, 1], 1.0), update("b", [1, 1, 0, 0], 5.0)]))
    ((teachers, age),) = taught
    weights, biases, shares = teachers.classifiers
    assert weights.tolist() == [[[1.0] * FEATURE_DIM] * NUM_CLASSES, [[5.0] * FEATURE_DIM] * NUM_CLASSES]
    assert biases.tolist() == [[1.0] * NUM_CLASSES, [5.0] * NUM_CLASSES]
    assert shares.tolist() == [[0.75, 0.0, 0.0, 1.0], [0.25, 1.0, 0.0, 0.0]]
    assert teachers.prototypes_CD[[0, 1, 3], 0].tolist() == [2.0, 5.0, 1.0]
    assert teachers.distribution_C.tolist() == pytest.approx([4 / 6, 1 / 6, 0, 1 / 6])
    assert age == 0


def test_the_classifier_is_cut_out_where_the_client_says(taught: list[tuple[Teachers, int]]) -> None:
    sent = update("a", [1, 1, 1, 1], 0.0, at=2)
    sent.record.parameters[:] = np.arange(HEAD + 2)
    server().aggregate(1, "model", iter([sent]))
    weights, biases, _ = taught[0][0].classifiers
    assert weights.flatten().tolist() == list(range(2, 10))
    assert biases.flatten().tolist() == list(range(10, 14))


def test_a_class_missing_this_round_keeps_its_prototype_and_is_not_generated(
    taught: list[tuple[Teachers, int]],
) -> None:
    made = server()
    made.aggregate(1, "model", iter([update("a", [1, 0, 3, 0], 1.0)]))
    made.aggregate(2, "model", iter([update("b", [1, 1, 0, 0], 5.0)]))
    assert held(made) == {0: [5.0, 5.0], 1: [5.0, 5.0], 2: [1.0, 1.0]}
    teachers, age = taught[1]
    assert teachers.distribution_C.tolist() == pytest.approx([2 / 3, 1 / 3, 0, 0])
    assert age == 1
    assert made.configure(3, "model").label_counts.tolist() == [2, 1, 3, 0]  # type: ignore[attr-defined]


def test_the_counter_stays_within_its_codec_and_no_class_is_lost(taught: list[tuple[Teachers, int]]) -> None:
    made = server()
    made.aggregate(1, "model", iter([update("a", [2**32 - 1, 0, 1, 2**31], 1.0)]))
    made.aggregate(2, "model", iter([update("a", [2**32 - 1, 0, 1, 2**31], 1.0)]))
    sent = made.configure(3, "model").label_counts  # type: ignore[attr-defined]
    assert sent.dtype == np.uint32
    assert sent.tolist() == [2 * (2**32 - 1) // 3, 0, 1, 2**32 // 3]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        *(({"at": begin}, f"a classifier of 12 .* its 14 .* from {begin} on") for begin in (-1, 3, 10**9)),
        ({"classes": [0, 2]}, r"expected prototypes of the classes \[0, 1\] .* got \[0, 2\]"),
    ],
)
def test_an_update_that_contradicts_itself_is_refused_at_the_door(wrong: dict[str, Any], expected: str) -> None:
    came = update("b", [1, 1, 0, 0], 1.0, **wrong).record.to_payload()
    with pytest.raises(RecordError, match=expected):
        Uplink.from_payload(came, {"K": 4})


def test_a_round_that_fails_changes_nothing() -> None:
    made = server()
    made.aggregate(1, "model", iter([update("a", [1, 1, 0, 0], 1.0)]))
    before = made.arrays()
    larger = update("b", [1, 0, 0, 0], 1.0)
    larger = Update("b", 1, replace(larger.record, parameters=np.ones(HEAD + 3, np.float32)))
    for updates in (
        [],
        [update("c", [0, 0, 0, 0], 0.0)],
        [update("a", [1, 1, 0, 0], 1.0), larger],
    ):
        with pytest.raises(RoundFailedError, match=r"round 2: none of \d updates|client b: parameters differ"):
            made.aggregate(2, "model", iter(updates))
    after = made.arrays()
    assert after.keys() == before.keys()
    assert all((after[name] == before[name]).all() for name in before)


def test_features_are_described_each_round() -> None:
    told = server().aggregate(1, "model", iter([update("a", [1, 1, 0, 0], 1.0)]))
    losses = {"fidelity_loss", "diversity_loss", "adversarial_loss"}
    described = {"generated_norm", "intra_class_distance", "inter_class_distance"}
    assert set(told) == {"num_updates", "num_train"} | losses | described
    assert np.isfinite(list(told.values())).all()


@pytest.mark.parametrize(
    ("weight", "floor", "age", "expected"),
    [
        (25.0, 1e-4, 0, 25.0),
        (25.0, 1e-4, 1, 24.5),
        (25.0, 1e-4, 1000, 1e-4),
        (5.0, 0.15, 200, 0.15),
        (0.1, 0.15, 9, 0.1),
        (1.0, 1.0, 9, 1.0),
        (0.0, 0.15, 9, 0.0),
    ],
)
def test_weights_decay_to_their_floor(weight: float, floor: float, age: int, expected: float) -> None:
    assert scheduled(weight, floor, 0.98, age) == pytest.approx(expected)


def federation(method: str, **config: Any) -> Federation:
    spec = make_spec(method, model=ModelConfig(name="fedpa-cnn", feature_dim=6), method_config=config)
    return Federation(spec, {client: make_data(labels) for client, labels in UNEVEN.items()})


def test_without_its_terms_it_is_federated_averaging_bit_for_bit() -> None:
    ours, theirs = federation("fedpa", generated_weight=0.0, prototype_weight=0.0), federation("fedavg")
    for number, cohort in enumerate((["a", "b", "c", "d"], ["b", "c"], ["a", "d"]), start=1):
        ours.round(number, cohort)
        theirs.round(number, cohort)
        for name in ("parameters", "buffers"):
            assert (ours.server.arrays()[name] == theirs.server.arrays()[name]).all()


@pytest.mark.parametrize("config", [{}, {"generated_weight": 0.0}, {"prototype_weight": 0.0}])
def test_each_term_changes_the_model_from_the_second_round_on(config: dict[str, float]) -> None:
    ours, theirs = federation("fedpa", **config), federation("fedavg")
    equal = []
    for number in (1, 2):
        ours.round(number)
        theirs.round(number)
        equal.append(bool((ours.server.arrays()["parameters"] == theirs.server.arrays()["parameters"]).all()))
    assert equal == [True, False]


def mnist_like(method: str) -> Federation:
    """One client with a digit of each class, the net and width of the paper."""
    y = np.arange(10)
    x = np.random.default_rng(0).random((10, 1, 28, 28), np.float32)
    names = [str(label) for label in y]
    spec = make_spec(method, num_classes=10, model=ModelConfig(name="fedpa-cnn", feature_dim=32))
    return Federation(spec, {"a": ClientData(x, y, x, y, names)})


def test_elements_on_mnist_are_the_papers() -> None:
    run = mnist_like("fedpa")
    (first,), (second,) = run.round(1), run.round(2)
    assert first.downlink.sizes == (0, 0)
    assert second.uplinks["a"].sizes == (26_798, 4 * 26_798 + 2 * 10 + 4 * 10)
    assert second.downlink.sizes == (47_054, 4 * 47_054 + 2 * 10 + 4 * 10)


def test_without_use_neither_prototypes_nor_generator_travel() -> None:
    run = federation("fedpa", generated_weight=0.0, prototype_weight=0.0)
    (first,), (second,) = run.round(1), run.round(2)
    told = run.clients["a"].announcement
    whole = told.num_parameters + told.num_buffers
    assert first.uplinks["a"].sizes == (whole, 4 * whole + 4 * 4)
    assert second.downlink.sizes == (whole, 4 * whole)


def test_fedgen_sends_a_generator_and_no_prototypes() -> None:
    run = mnist_like("fedgen")
    run.round(1)
    (second,) = run.round(2)
    assert second.uplinks["a"].sizes.elements == 26_434 + 44
    assert second.downlink.sizes.elements == 26_434 + 44 + 19_744 + 512


def test_fedgen_has_neither_an_adversarial_nor_a_prototype_term() -> None:
    config = methods.read_config(methods.find("fedgen"), {})
    assert isinstance(config, Config)
    assert (config.adversarial_weight, config.prototype_weight, config.uses_prototypes) == (0.0, 0.0, False)
    assert config.uses_generator


def test_counts_of_another_label_map_are_refused_at_the_door() -> None:
    run = federation("fedpa")
    (done,) = run.round(1)
    dims = {**done.exchange.uplink_dims(done.facts["a"]), "K": 5}
    with pytest.raises(RecordError, match="field 'counts': expected K = 5, got 4"):
        done.exchange.uplink.from_payload(done.uplinks["a"], dims)


def test_all_clients_must_have_one_net() -> None:
    assert methods.find("fedpa").shares_model
    assert methods.find("fedgen").shares_model
