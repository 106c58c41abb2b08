"""GFPL's rounds and its server half: the schedule, the frame, what travels, how it is fused and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from models import methods
from models.checkpoint import state_hash
from models.methods.api import RoundFailedError, Server, Update
from models.methods.gfpl import Config, Mixture, Mixtures, Uplink, flattened, interacts
from models.methods.gfpl.etf import equiangular_frame
from models.spec import ConfigError, ModelConfig, RunSpec, WireConfig
from tests.models.federation import Exchanged, Federation
from tests.models.methods import test_conformance
from tests.models.small_run import UNEVEN, make_data, make_spec
from wire.errors import RecordError

METHOD = methods.find("gfpl")
ALWAYS: dict[str, Any] = {"first_interaction": 1, "interaction_interval": 1}


def mixture(weights: list[float], means: list[list[float]], deviations: list[list[float]]) -> Mixture:
    return Mixture(*(np.array(array, np.float32) for array in (weights, means, deviations)))


ONE = mixture([1.0], [[1.0, 2.0]], [[0.5, 0.25]])
TWO = mixture([0.25, 0.75], [[0.0, 0.0], [8.0, 8.0]], [[1.0, 1.0], [1.0, 2.0]])


# The schedule


@pytest.mark.parametrize(
    ("config", "due"),
    [
        ({}, [10, 20, 30]),
        ({"first_interaction": 4, "interaction_interval": 3}, [6, 9, 12, 15, 18, 21, 24, 27, 30]),
        ({"first_interaction": 25, "interaction_interval": 10}, [30]),
        ({"pseudo_features": False}, []),
    ],
)
def test_interaction_rounds(config: dict[str, Any], due: list[int]) -> None:
    assert [round for round in range(1, 31) if interacts(Config(**config), round)] == due


@pytest.mark.parametrize(
    ("config", "num_rounds", "told"),
    [
        ({}, 9, ["first_interaction = 10, interaction_interval = 10: no round of this run exchanges mixtures"]),
        (
            {"first_interaction": 2, "interaction_interval": 4},
            3,
            ["first_interaction = 2, interaction_interval = 4: no"],
        ),
        ({}, 10, []),
        ({"pseudo_features": False}, 9, []),
    ],
)
def test_a_run_too_short_for_an_exchange_is_told_of(config: dict[str, Any], num_rounds: int, told: list[str]) -> None:
    notes = methods.notes(make_spec("gfpl", method_config=config, num_rounds=num_rounds))
    assert len(notes) == len(told)
    assert all(f"[method] {begins}" in note for begins, note in zip(told, notes, strict=True))


def federation(labels: dict[str, list[int]] = UNEVEN, feature_dim: int = 6, **config: Any) -> Federation:
    spec = make_spec("gfpl", method_config=config, model=ModelConfig(feature_dim=feature_dim))
    return Federation(spec, {name: make_data(held) for name, held in labels.items()})


def sent(done: Exchanged) -> int:
    """Elements and payload bytes of an exchange."""
    return sum(sum(payload.sizes) for payload in [done.downlink, *done.uplinks.values()])


def test_other_rounds_send_nothing() -> None:
    run = federation(first_interaction=2, interaction_interval=2)
    first, second, third = ([sent(done) for done in run.round(number)] for number in (1, 2, 3))
    assert first == third == [0, 0]
    assert all(second)


def test_without_pseudo_features_nothing_is_ever_sent() -> None:
    run = federation(pseudo_features=False, **ALWAYS)
    assert [sent(done) for number in (1, 2) for done in run.round(number)] == [0, 0, 0, 0]


@pytest.mark.parametrize("value_dtype", ["f32", "i8"])
def test_elements_are_those_of_the_paper(value_dtype: str) -> None:
    """Up 4 x (2 x 50 + 1) elements and a count for each class held, down as much for each component that is left."""
    labels = {"a": [0] * 8 + [1] * 9 + [2] * 8, "b": [1] * 8, "c": [3] * 4 + [2]}
    spec = make_spec(
        "gfpl",
        method_config={**ALWAYS, "threshold": 0.0},
        model=ModelConfig(feature_dim=50),
        wire=WireConfig(value_dtype=value_dtype),  # type: ignore[arg-type]
    )
    run = Federation(spec, {name: make_data(held) for name, held in labels.items()})
    up, down = run.round(1)
    expected = {"a": 3 * 404, "b": 404, "c": 2 * 101 + 101}
    assert {name: payload.sizes.elements for name, payload in up.uplinks.items()} == expected
    assert up.uplinks["a"].arrays["counts"].tolist() == [8, 9, 8]
    assert down.downlink.sizes.elements == sum(expected.values())
    assert run.metrics["num_components"] == 19
    for done, payload, record in (
        (up, up.uplinks["a"], up.exchange.uplink.sizes(up.exchange.uplink_dims(up.facts["a"]), value_dtype)),
        (down, down.downlink, down.exchange.downlink.sizes(down.exchange.downlink_dims(down.facts["a"]), value_dtype)),
    ):
        assert payload.sizes == record, done.exchange.name


@pytest.mark.parametrize(
    "check",
    [
        test_conformance.test_two_runs_are_equal_in_bits,
        test_conformance.test_a_server_goes_on_from_its_arrays,
        test_conformance.test_a_client_goes_on_from_its_arrays,
        test_conformance.test_a_round_that_did_not_count_leaves_no_trace,
        test_conformance.test_the_order_of_arrival_does_not_count,
        test_conformance.test_it_goes_on_without_some_clients,
        test_conformance.test_clients_without_samples_alone_fail_the_round_or_change_nothing,
        test_conformance.test_no_updates_at_all_fail_the_round_or_change_nothing,
    ],
)
def test_conformance_holds_where_every_round_interacts(
    check: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(name: str, **changes: Any) -> RunSpec:
        return make_spec(name, method_config=ALWAYS, **changes)

    monkeypatch.setattr(test_conformance, "make_spec", make)
    check("gfpl")


@pytest.mark.parametrize(
    "config",
    [{"dual_classifier": False}, {"threshold": 1e9, "linkage": "complete"}, {"single_sample": "pooled"}],
    ids=["w/o DCS", "all fused", "pooled"],
)
def test_whatever_is_chosen_arrays_are_finite_and_sizes_as_predicted(config: dict[str, Any]) -> None:
    run = federation(**ALWAYS, **config)
    for number, cohort in enumerate((["a", "b"], ["b", "c", "d"]), start=1):
        for done in run.round(number, cohort):
            facts = done.facts["b"]
            predicted = done.exchange.downlink.sizes(done.exchange.downlink_dims(facts))
            assert done.downlink.sizes == predicted
            for payload in [done.downlink, *done.uplinks.values()]:
                assert all(np.isfinite(array).all() for array in payload.arrays.values())
    assert all(np.isfinite(array).all() for client in run.clients.values() for array in client.arrays().values())


# The fixed classifier


@pytest.mark.parametrize(("width", "num_classes"), [(2, 2), (10, 10), (50, 10), (128, 100)])
def test_vectors_are_of_length_one_and_equally_far_apart(width: int, num_classes: int) -> None:
    frame = equiangular_frame(width, num_classes, np.random.default_rng(0))
    expected = (num_classes * np.eye(num_classes) - 1) / (num_classes - 1)  # Eq. (3)
    assert frame.shape == (width, num_classes)
    assert frame.dtype == np.float64
    np.testing.assert_allclose(frame.T @ frame, expected, rtol=0, atol=1e-12)


def server(num_classes: int = 4, **config: Any) -> Server:
    spec = make_spec("gfpl", num_classes, model=ModelConfig(feature_dim=2))
    return METHOD.make_server(spec, Config(**{**ALWAYS, **config}))


def test_the_frame_is_a_constant_of_the_run() -> None:
    made, again = server().constants(), server().constants()
    assert made["etf"]["vectors"].shape == (50, 4)
    assert made["etf"]["vectors"].tolist() == again["etf"]["vectors"].tolist()
    assert server(dual_classifier=False).constants() == {}


def test_a_frame_narrower_than_the_classes_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"projection_dim = 9: expected at least 10, the number of classes"):
        server(num_classes=10, projection_dim=9)
    assert server(num_classes=10, projection_dim=9, dual_classifier=False).constants() == {}


def test_a_frame_of_one_class_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected at least 2 classes, got 1"):
        server(num_classes=1)


# The server


def update(name: str, held: dict[int, tuple[int, Mixture]]) -> Update:
    arrays = flattened({label: made for label, (_, made) in held.items()}, 2)
    counts = np.array([held[label][0] for label in sorted(held)], np.uint32)
    return Update(name, int(counts.sum()), Uplink(**arrays, counts=counts))


def fused(made: Server) -> dict[int, Mixture]:
    record = made.configure(1, "fusion")
    assert isinstance(record, Mixtures)
    return record.by_class()


def test_components_weigh_what_they_stand_for() -> None:
    """Weights 8 of one client, and 0.25 and 0.75 of the other's 16."""
    made = server(threshold=0.0)
    told = made.aggregate(1, "mixtures", iter([update("a", {2: (8, ONE)}), update("b", {2: (16, TWO)})]))
    assert told == {"num_updates": 2.0, "num_classes": 1.0, "num_components": 3.0, "merges_2": 0.0}
    (held,) = fused(made).values()
    assert held.weights == pytest.approx([12 / 24, 8 / 24, 4 / 24])
    assert held.means.tolist() == [[8.0, 8.0], [1.0, 2.0], [0.0, 0.0]]
    assert held.deviations.tolist() == [[1.0, 2.0], [0.5, 0.25], [1.0, 1.0]]


def test_what_is_near_is_fused_class_by_class() -> None:
    made = server(threshold=1e9)
    told = made.aggregate(1, "mixtures", iter([update("a", {0: (3, ONE), 2: (3, ONE)}), update("b", {2: (1, ONE)})]))
    assert told["num_components"] == 2.0
    assert (told["merges_0"], told["merges_2"]) == (0.0, 1.0)
    for held in fused(made).values():
        assert [array.tolist() for array in held] == [[1.0], [[1.0, 2.0]], [[0.5, 0.25]]]


def test_the_threshold_may_be_one_for_each_dimension() -> None:
    """The distance over two dimensions is 0.3."""
    gap = float(np.sqrt(8 * 0.3))
    updates = [update(name, {0: (1, mixture([1.0], [[x, 0.0]], [[1.0, 1.0]]))}) for name, x in (("a", 0.0), ("b", gap))]
    whole = server(threshold=0.2).aggregate(1, "mixtures", iter(updates))
    each = server(threshold=0.2, threshold_per_dim=True).aggregate(1, "mixtures", iter(updates))
    assert [whole["num_components"], each["num_components"]] == [2.0, 1.0]


def test_a_class_of_which_nothing_came_keeps_its_last_mixture() -> None:
    made = server()
    made.aggregate(1, "mixtures", iter([update("a", {0: (1, ONE), 2: (1, ONE)})]))
    told = made.aggregate(2, "mixtures", iter([update("a", {1: (8, TWO), 2: (8, TWO)})]))
    assert {label: len(held.weights) for label, held in fused(made).items()} == {0: 1, 1: 2, 2: 2}
    assert (told["num_classes"], told["num_components"]) == (3.0, 5.0)


@pytest.mark.parametrize(
    "updates", [[], [update("a", {})], [update("a", {0: (0, ONE)})]], ids=["none", "empty", "of no samples"]
)
def test_a_round_without_any_mixture_fails_and_changes_nothing(updates: list[Update]) -> None:
    made = server()
    made.aggregate(1, "mixtures", iter([update("a", {0: (1, ONE)})]))
    before = state_hash(made.arrays())
    with pytest.raises(RoundFailedError, match=f"round 2: none of {len(updates)} updates has a mixture"):
        made.aggregate(2, "mixtures", iter(updates))
    assert state_hash(made.arrays()) == before


def test_components_of_no_weight_are_left_out() -> None:
    made = server()
    none = mixture([0.0, 1.0], [[9.0, 9.0], [1.0, 2.0]], [[1.0, 1.0], [0.5, 0.25]])
    made.aggregate(1, "mixtures", iter([update("a", {0: (5, none)})]))
    assert [array.tolist() for array in fused(made)[0]] == [array.tolist() for array in ONE]


def test_the_largest_numbers_that_travel_stay_finite() -> None:
    made, most = server(threshold=1e300), float(np.finfo(np.float32).max)
    ends = [mixture([1.0], [[sign * most, 0.0]], [[most, 1e-38]]) for sign in (-1, 1)]
    made.aggregate(1, "mixtures", iter(update(name, {0: (1, held)}) for name, held in zip("ab", ends, strict=True)))
    assert all(np.isfinite(array).all() for array in fused(made)[0])


# What is refused at the door

GOOD = flattened({0: TWO, 2: ONE}, 2) | {"counts": np.array([8, 2], np.uint32)}
DIMS = {"K": 4, "C": 2, "G": 3, "D": 2}


def changed(name: str, content: Any) -> dict[str, np.ndarray]:
    return GOOD | {name: np.array(content, GOOD[name].dtype)}


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (changed("deviations", [[1, 1], [1, 0], [1, 1]]), "'deviations': expected numbers above 0, got 0.0"),
        (changed("deviations", [[1, 1], [1, -2], [1, 1]]), "'deviations': expected numbers above 0, got -2.0"),
        (changed("deviations", [[1, 1], [1, np.nan], [1, 1]]), "'deviations': expected finite values, got nan"),
        (changed("deviations", [[1, 1], [1, np.inf], [1, 1]]), "'deviations': expected finite values, got inf"),
        (changed("means", [[1, 1], [1, np.nan], [1, 1]]), "'means': expected finite values"),
        (changed("weights", [0.25, 0.5, 1]), "'weights': expected a sum of 1 for class 0, got 0.75"),
        (changed("weights", [0.25, 0.75, 2]), "'weights': expected a sum of 1 for class 2, got 2"),
        (changed("weights", [-0.25, 1.25, 1]), "'weights': expected no negative number, got -0.25"),
        (changed("means", np.ones((3, 3))), "'means': expected D = 2, got 3"),
        (changed("weights", [0.25, 0.5, 0.25, 1]), "'weights': expected G = 3, got 4"),
        (changed("num_components", [2, 2]), r"'num_components': expected at least 1 each and 3, got \[2, 2\]"),
        (changed("num_components", [3, 0]), r"'num_components': expected at least 1 each and 3, got \[3, 0\]"),
        (changed("num_components", [4294967295, 4]), "'num_components': expected at least 1 each and 3"),
        (changed("classes", [0, 4]), "'classes': expected class ids below 4, got 4"),
        (changed("classes", [2, 0]), "'classes': expected strictly increasing class ids"),
        (changed("counts", [8, 2, 1]), "'counts': expected C = 2, got 3"),
    ],
)
def test_what_is_no_mixture_is_refused(arrays: dict[str, np.ndarray], reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        Uplink.from_payload(Uplink(**arrays).to_payload(), DIMS)


def test_weights_of_nothing_are_refused_however_many_a_codec_may_have_rounded() -> None:
    """Of 300 components, each off by a step of the codec, the sum may be anything but 0."""
    many = mixture([0.0] * 300, [[0.0, 0.0]] * 300, [[1.0, 1.0]] * 300)
    record = Uplink(**flattened({0: many}, 2), counts=np.array([600], np.uint32))
    with pytest.raises(RecordError, match="'weights': expected a sum of 1 for class 0, got 0"):
        record.check()


def test_a_mixture_is_taken_as_it_came() -> None:
    record = Uplink.from_payload(Uplink(**GOOD).to_payload(), DIMS)
    for made, given in ((record.by_class()[0], TWO), (record.by_class()[2], ONE)):
        assert [array.tolist() for array in made] == [array.tolist() for array in given]


def test_weights_may_be_off_by_what_a_codec_rounds() -> None:
    record = Uplink.from_payload(Uplink(**changed("weights", [0.253, 0.754, 0.998])).to_payload(), DIMS)
    assert record.weights.sum() == pytest.approx(2.005)
