from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import methods
from models.methods.api import RoundFailedError, Server, Update
from models.methods.refprotofl import (
    AdapterUp,
    Config,
    PrototypesUp,
    adapter_size,
    initial_adapter,
)
from models.prototypes import WeightedMean
from models.spec import ConfigError, DataConfig, ModelConfig, RunSpec
from tests.models.small_run import make_spec
from wire.encoding import encode, encoded_bytes, pack
from wire.errors import EncodeError, RecordError
from wire.indices import encode_indices, entropy_bytes
from wire.messages import Update as UpdateMessage
from wire.payload import Payload, Tensor

METHOD = methods.find("refprotofl")

SIZE = 1 * (1 + 1) + 2 * (1 + 1)
"""Entries of the adapter from 1 feature to 1 and on to 2 classes: as many as the golden case has."""


def spec_of(num_classes: int = 2, feature_dim: int = 1, public: int = 0, **config: Any) -> RunSpec:
    data = DataConfig(public_per_class=1 if public else 0, public_classes=max(public, 1))
    model = ModelConfig(feature_dim=feature_dim)
    return make_spec("refprotofl", num_classes, data=data, model=model, method_config=config)


def server(spec: RunSpec | None = None, **config: Any) -> Server:
    return METHOD.make_server(spec or spec_of(), Config(**{"adapter_dim": 1, "budget": 3, **config}))


def adapter_update(client: str, num_train: int, positions: Any, entries: Any) -> Update:
    positions, entries = np.array(positions, np.int64), np.array(entries, np.float32)
    return Update(client, num_train, AdapterUp(positions, entries, np.array([num_train], np.uint32)))


def prototypes_update(
    client: str, public: Any, local: Any = (), counts: Any = (), classes: Any = (), m: int = 3
) -> Update:
    record = PrototypesUp(
        np.array(public, np.float32).reshape(-1, m),
        np.array(local, np.float32).reshape(-1, m),
        np.array(counts, np.uint32),
        np.array(classes, np.uint16),
    )
    return Update(client, 1, record)


def adapter_of(made: Server) -> list[float]:
    return made.arrays()["adapter"].tolist()  # type: ignore[no-any-return]


GLOBAL = np.array([-2.251, -0.139, 0.033, -1.425, 0.333, -0.651], np.float32)
ADAPTERS = np.array(
    [
        [0.862, -0.126, 0.669, 1.219, 0.383, -0.876],
        [-1.514, 1.753, -0.111, -0.689, 0.144, -0.191],
        [0.852, 0.034, 0.014, -0.715, 0.47, -1.034],
    ],
    np.float32,
)
MASKS = np.array([[1, 0, 1, 0, 0, 1], [1, 1, 0, 0, 0, 1], [0, 0, 1, 0, 0, 1]], bool)
NUM_TRAIN = (10, 30, 60)
AVERAGED = [-0.92, 1.753, 0.1075714, -1.425, 0.333, -0.7653]


def begun(adapter: np.ndarray, spec: RunSpec | None = None, **config: Any) -> Server:
    """A server half that has averaged before."""
    made = server(spec, **config)
    made.load({**made.arrays(), "adapter": adapter})
    return made


@pytest.mark.parametrize("payload", ["delta", "value"])
def test_an_entry_is_averaged_over_the_clients_that_sent_it(payload: str) -> None:
    made = begun(GLOBAL, payload=payload)
    sent = ADAPTERS - GLOBAL if payload == "delta" else ADAPTERS
    updates = [
        adapter_update(name, num, np.flatnonzero(mask), entries[mask])
        for name, num, mask, entries in zip("abc", NUM_TRAIN, MASKS, sent, strict=True)
    ]
    told = made.aggregate(2, "adapter", iter(updates))
    assert adapter_of(made) == pytest.approx(AVERAGED, abs=1e-6)
    assert told == {"num_updates": 3.0, "num_entries_sent": 4.0}


def test_a_value_of_zero_that_was_sent_counts() -> None:
    made = begun(GLOBAL, payload="value")
    made.aggregate(2, "adapter", iter([adapter_update("a", 1, [3], [0.0]), adapter_update("b", 1, [3], [1.0])]))
    assert adapter_of(made)[3] == 0.5


sparse = st.integers(1, 40).flatmap(
    lambda size: st.tuples(st.just(size), st.integers(1, size), st.integers(0, 2**32 - 1))
)


@given(sparse)
def test_deltas_give_what_values_give(drawn: tuple[int, int, int]) -> None:
    size, budget, seed = drawn
    means = [averaged(size, budget, seed, payload) for payload in ("delta", "value")]
    assert means[0] == pytest.approx(means[1], abs=1e-6)


@given(sparse)
def test_a_budget_of_the_whole_adapter_gives_the_weighted_mean(drawn: tuple[int, int, int]) -> None:
    size, _, seed = drawn
    mean = WeightedMean()
    for adapter, num_train in zip(*trained(size, seed)[1:], strict=True):
        mean.add(adapter, num_train)
    for payload in ("delta", "value"):
        assert averaged(size, size, seed, payload) == pytest.approx(mean.mean().tolist(), abs=1e-6)


def trained(size: int, seed: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """A global adapter, and what four clients made of it with how many samples; `feature_dim` gives it its size."""
    random = np.random.default_rng(seed)
    entries = size + 5
    start = random.normal(size=entries).astype(np.float32)
    moved = (start + 0.1 * random.normal(size=(4, entries))).astype(np.float32)
    return start, moved, random.integers(1, 500, 4).tolist()


def averaged(size: int, budget: int, seed: int, payload: str) -> list[float]:
    """The next adapter, of `size` features to 1 and 2 classes, when clients send so many of its entries or all."""
    start, moved, num_train = trained(size, seed)
    count = len(start) if budget == size else budget
    random = np.random.default_rng(seed)
    made = begun(start, spec_of(feature_dim=size), budget=count, payload=payload)
    updates = []
    for index, (adapter, num) in enumerate(zip(moved, num_train, strict=True)):
        positions = np.sort(random.choice(len(start), count, replace=False))
        sent = adapter - start if payload == "delta" else adapter
        updates.append(adapter_update(str(index), num, positions, sent[positions]))
    made.aggregate(2, "adapter", iter(updates))
    return adapter_of(made)


def anchors_of(made: Server) -> dict[int, list[float]]:
    arrays = made.arrays()
    return dict(zip(arrays["anchor_classes"].tolist(), arrays["anchors"].tolist(), strict=True))


def aligning() -> Server:
    return server(spec_of(num_classes=4, public=1), adapter_dim=3)


TWO = [
    prototypes_update("a", [0.666, 1.524, -1.525], [-1.001, -1.251, 0.589], [4], [1]),
    prototypes_update("b", [-2.466, 0.617, 2.548], [-0.841, -0.506, -0.348], [12], [1]),
]


def test_public_prototypes_are_averaged_evenly_and_local_ones_by_their_samples() -> None:
    made = aligning()
    assert made.aggregate(1, "prototypes", iter(TWO)) == {"num_updates": 2.0, "num_classes": 2.0}
    assert anchors_of(made)[0] == pytest.approx([-0.9, 1.0705, 0.5115], abs=1e-6)
    assert anchors_of(made)[1] == pytest.approx([-0.881, -0.69225, -0.11375], abs=1e-6)


def test_a_client_without_prototypes_is_not_divided_by() -> None:
    made, other = aligning(), aligning()
    made.aggregate(1, "prototypes", iter(TWO))
    other.aggregate(1, "prototypes", iter([*TWO, prototypes_update("c", [])]))
    assert anchors_of(made) == anchors_of(other)


def test_a_class_that_nobody_has_keeps_its_last_anchor_or_has_none() -> None:
    made = aligning()
    made.aggregate(1, "prototypes", iter(TWO))
    made.aggregate(2, "prototypes", iter([prototypes_update("c", [1, 1, 1], [2, 2, 2], [1], [3])]))
    assert anchors_of(made)[1] == pytest.approx([-0.881, -0.69225, -0.11375], abs=1e-6)
    assert {label: anchors_of(made)[label] for label in (0, 3)} == {0: [1, 1, 1], 3: [2, 2, 2]}
    assert set(anchors_of(made)) == {0, 1, 3}


def test_anchors_survive_an_aggregator_that_ends_between_the_exchanges() -> None:
    made, other = aligning(), aligning()
    made.aggregate(1, "prototypes", iter(TWO))
    other.load(made.arrays())
    downs = [each.configure(1, "adapter").to_payload() for each in (made, other)]
    assert {name: array.tolist() for name, array in downs[0].arrays.items()} == {
        name: array.tolist() for name, array in downs[1].arrays.items()
    }
    assert downs[1].arrays["classes"].tolist() == [0, 1]


@pytest.mark.parametrize("updates", [[], [prototypes_update("a", [])]])
def test_prototypes_of_nobody_fail_the_round_and_change_nothing(updates: list[Update]) -> None:
    made = aligning()
    made.aggregate(1, "prototypes", iter(TWO))
    before = anchors_of(made)
    with pytest.raises(RoundFailedError, match=f"round 2: none of {len(updates)} updates has a prototype"):
        made.aggregate(2, "prototypes", iter(updates))
    assert anchors_of(made) == before


@pytest.mark.parametrize("updates", [[], [adapter_update("a", 0, [], [])]])
def test_adapters_of_nobody_fail_the_round_and_change_nothing(updates: list[Update]) -> None:
    made = begun(GLOBAL)
    with pytest.raises(RoundFailedError, match=f"round 2: none of {len(updates)} updates has a train sample"):
        made.aggregate(2, "adapter", iter(updates))
    assert adapter_of(made) == GLOBAL.tolist()


@pytest.mark.parametrize("config", [{"erpa": False}, {"anchor_weight": 0.0}])
def test_without_alignment_nothing_is_made_of_prototypes(config: dict[str, Any]) -> None:
    made = server(spec_of(public=1), **config)
    assert made.constants() == {}
    assert made.aggregate(1, "prototypes", iter([prototypes_update("a", [], m=1)])) == {}
    assert made.configure(1, "adapter").to_payload().sizes == (0, 0)


def test_before_the_first_average_nothing_goes_down_and_changes_add_to_the_initial_adapter() -> None:
    made = server()
    assert made.configure(1, "prototypes").to_payload().sizes == (0, 0)
    made.aggregate(1, "adapter", iter([adapter_update("a", 1, [0, 5], [1.0, -1.0])]))
    start = initial_adapter(spec_of(), Config(adapter_dim=1))
    assert adapter_of(made) == pytest.approx((start + np.array([1, 0, 0, 0, 0, -1])).tolist(), abs=1e-6)
    assert made.configure(2, "prototypes").to_payload().sizes == (SIZE, 4 * SIZE)


def test_the_initial_adapter_is_drawn_from_the_seed_as_linear_layers_are() -> None:
    spec, config = spec_of(num_classes=3, feature_dim=100), Config(adapter_dim=25)
    drawn = initial_adapter(spec, config)
    assert drawn.dtype == np.float32
    assert (drawn == initial_adapter(spec, config)).all()
    assert (drawn != initial_adapter(msgspec.structs.replace(spec, seed=1), config)).any()
    first, second = np.split(drawn, [25 * 101])
    for layer, bound in ((first, 0.1), (second, 0.2)):
        assert 0.95 * bound < np.abs(layer).max() <= bound
    assert len(drawn) == adapter_size(config, 100, 3)


def test_the_size_of_the_papers_adapter() -> None:
    assert adapter_size(Config(), 512, 10) == 66_954
    assert adapter_size(Config(), 512, 100) == 78_564
    assert Config().num_sent(66_954) == 6_695
    assert Config(budget=7).num_sent(66_954) == 7
    assert Config(apud=False).num_sent(66_954) == 66_954
    assert Config(budget=0.001).num_sent(10) == 1


def test_a_budget_of_all_entries_or_more_is_the_whole_adapter() -> None:
    assert [Config(budget=budget).num_sent(10) for budget in (10, 11, 10**9, 1.0)] == [10] * 4
    assert Config(budget=1).num_sent(10) == 1


@pytest.mark.parametrize(("value_dtype", "entry_bytes"), [("f32", 4), ("f16", 2)])
def test_a_tenth_of_the_papers_adapter_costs_its_values_and_the_entropy_of_the_set(
    value_dtype: str, entry_bytes: int
) -> None:
    size, random = 66_954, np.random.default_rng(0)
    positions = np.sort(random.choice(size, 6_695, replace=False))
    record = AdapterUp(positions, random.normal(size=6_695).astype(np.float32), np.array([1200], np.uint32))
    payload = record.to_payload(value_dtype, {"A": size})
    assert entropy_bytes(size, 6_695) == 3_925
    assert payload.sizes.elements == 6_695
    set_bytes = payload.sizes.payload_bytes - 6_695 * entry_bytes - 4
    assert set_bytes <= 4_000
    frames = encode(UpdateMessage(2**40, 50, 1, []), pack(payload), 2**20)
    assert encoded_bytes(frames) <= 6_695 * entry_bytes + 4_000 + 80


DIMS = {"A": SIZE, "B": 3, "one": 1}


def sent(positions: bytes, entries: Any = (1.0, 2.0, 3.0)) -> Payload:
    tensors = {
        "positions": Tensor("u8", np.frombuffer(positions, np.uint8)),
        "entries": Tensor("f32", np.array(entries, np.float32)),
        "num_train": Tensor("u32", np.array([7], np.uint32)),
    }
    return Payload(tensors)


GOOD = encode_indices(np.array([0, 2, 5]), SIZE)


def test_a_good_uplink_is_taken() -> None:
    record = AdapterUp.from_payload(sent(GOOD), DIMS)
    assert (record.positions.tolist(), record.entries.tolist()) == ([0, 2, 5], [1, 2, 3])


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (sent(GOOD, (1.0, 2.0)), "field 'positions': expected B = 3|field 'entries': expected B = 3, got 2"),
        (sent(GOOD, (1.0, np.nan, 3.0)), r"field 'entries': expected finite values, got nan at \[1\]"),
        (sent(encode_indices(np.array([0, 2]), SIZE)), "field 'positions': expected B = 3, got 2"),
        (sent(encode_indices(np.array([0, 2, 6]), SIZE + 1)), "expected one among 6 positions, got one among 7"),
        (sent(GOOD[:-1]), "field 'positions': index set"),
        (sent(GOOD + b"\x00\x00"), "field 'positions': index set"),
    ],
)
def test_a_bad_uplink_is_refused_by_field(payload: Payload, text: str) -> None:
    with pytest.raises(RecordError, match=text):
        AdapterUp.from_payload(payload, DIMS)


def test_a_local_prototype_of_a_public_class_is_refused() -> None:
    """It would count by the client's samples where the others' public ones count once each."""
    public, local = np.zeros((2, 3), np.float32), np.ones((1, 3), np.float32)
    for label in (0, 1):
        classes = np.array([label], np.uint16)
        with pytest.raises(RecordError, match=f"'classes': expected none of the 2 public ones, got {label}"):
            PrototypesUp(public, local, np.array([9], np.uint32), classes).check()
    PrototypesUp(public, local, np.array([9], np.uint32), np.array([2], np.uint16)).check()


@pytest.mark.parametrize(
    ("positions", "text"),
    [
        ([2, 2, 5], "strictly increasing positions, got 2 after 2"),
        ([5, 2, 0], "strictly increasing positions, got 2 after 5"),
        ([0, 2, 6], "positions from 0 to 5, got 6"),
        ([-1, 2, 5], "positions from 0 to 5, got -1"),
    ],
)
def test_positions_that_are_no_set_cannot_be_sent(positions: list[int], text: str) -> None:
    record = adapter_update("a", 1, positions, [1.0, 2.0, 3.0]).record
    with pytest.raises(EncodeError, match=f"field 'positions': .*{text}"):
        record.to_payload("f32", DIMS)


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (0, "budget = 0: expected"),
        (-1, "budget = -1: expected"),
        (1.5, "budget = 1.5: expected"),
        (0.0, "budget = 0.0: expected"),
    ],
)
def test_a_budget_of_nothing_or_of_a_share_above_all_is_refused(budget: float, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        methods.read_config(METHOD, {"budget": budget})
