from dataclasses import fields, replace
from typing import Any

import msgspec
import numpy as np
import pytest

from models import methods
from models.checkpoint import state_hash
from models.methods import fedtgp
from models.methods.api import Server, Update
from models.methods.fedtgp.server import Uploads
from models.methods.tinyproto import Config, TgpConfig, Uplink
from models.methods.tinyproto.aps import aggregation_factors, scale_local, scaling_constant
from models.methods.tinyproto.tgp_server import TinyProtoTgpServer
from models.spec import ConfigError, ModelConfig, TasksConfig
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec
from wire.encoding import pack, unpack
from wire.errors import EncodeError, RecordError

BOTH = ["tinyproto-fp", "tinyproto-ft"]
DIM = 4


def server(name: str = "tinyproto-fp", num_train: int = 60, seed: int = 0, **config: Any) -> Server:
    """A server half of 3 classes whose prototypes have 8 entries, of which 4 travel."""
    method = methods.find(name)
    spec = make_spec(name, 3, seed=seed, model=ModelConfig(feature_dim=8))
    made = method.make_server(spec, methods.read_config(method, {"prototype_dim": DIM, **config}))
    made.num_train = num_train
    return made


def update(client: str, num_train: int, scaled: dict[int, list[float]]) -> Update:
    prototypes = np.array(list(scaled.values()), np.float32).reshape(-1, DIM)
    return Update(client, num_train, Uplink(prototypes, np.array(list(scaled), np.uint16), "0" * 12))


def held(made: Server) -> dict[int, list[float]]:
    arrays = made.arrays()
    return dict(zip(arrays["classes"].tolist(), arrays["prototypes"].tolist(), strict=True))


LOCAL = np.array([[0.532, -0.405, 0.278, -0.177], [-0.845, -0.32, -0.95, 0.007]])
COUNTS = np.array([6, 14])
TARGET = [-0.4319, -0.3455, -0.5816, -0.0482]
"""mu times the sum of n_ij c_ij, with mu = 3 / 60."""


def scaled_updates(mu: float) -> list[Update]:
    """Two clients with all 60 samples between them, 20 of them of class 1."""
    scaled = scale_local(LOCAL, COUNTS, mu)
    assert scaled.dtype == np.float32
    return [update(client, n, {1: row.tolist()}) for client, n, row in zip("ab", (25, 35), scaled, strict=True)]


@pytest.mark.parametrize("name", BOTH)
def test_the_distance_of_the_closest_masks_is_told(name: str) -> None:
    """Masks of 4 of 8 features: three of them cannot all be disjoint, and two may share 2 at least."""
    told = server(name).aggregate(1, "prototypes", iter([update("a", 60, {1: [1.0] * DIM})]))
    assert told["smallest_mask_distance"] in (2.0, 4.0)


def test_scaled_prototypes_sum_up_to_the_target() -> None:
    made = server()
    made.aggregate(1, "prototypes", iter(scaled_updates(3 / 60)))
    assert held(made) == {1: pytest.approx(TARGET, abs=1e-6)}


def test_absent_clients_are_made_up_for() -> None:
    """Where 25 of 60 samples are present, the sum stands for 25 / 60 of what it should."""
    made = server()
    made.aggregate(1, "prototypes", iter(scaled_updates(3 / 60)[:1]))
    assert held(made) == {1: pytest.approx((60 / 25 * 3 / 60 * 6 * LOCAL[0]).tolist(), abs=1e-6)}


def test_the_mean_of_the_paper_is_there_for_the_asking() -> None:
    made = server(aps_aggregation="mean")
    made.aggregate(1, "prototypes", iter(scaled_updates(3 / 60)))
    assert held(made) == {1: pytest.approx([entry / 2 for entry in TARGET], abs=1e-6)}


def test_without_scaling_clients_count_equally() -> None:
    made = server(aps=False)
    updates = [update(client, n, {1: row.tolist()}) for client, n, row in zip("ab", (25, 35), LOCAL, strict=True)]
    made.aggregate(1, "prototypes", iter(updates))
    assert held(made) == {1: pytest.approx(LOCAL.mean(axis=0).tolist(), abs=1e-6)}


def test_a_class_that_nobody_sent_keeps_its_last_prototype() -> None:
    made = server()
    made.aggregate(1, "prototypes", iter([update("a", 60, {0: [1.0] * 4, 2: [2.0] * 4})]))
    made.aggregate(2, "prototypes", iter([update("a", 60, {2: [5.0] * 4})]))
    assert held(made) == {0: [1.0] * 4, 2: [5.0] * 4}


@pytest.mark.parametrize("name", BOTH)
def test_mu_is_classes_by_samples_unless_it_is_set(name: str) -> None:
    assert server(name).configure(1, "prototypes").to_payload().scalars["mu"] == 3 / 60
    assert server(name, mu=0.5).configure(1, "prototypes").to_payload().scalars["mu"] == 0.5
    assert scaling_constant(Config(), 3, 0) == 3.0


@pytest.mark.parametrize("aggregation", ["sum", "mean"])
def test_both_bases_aim_at_the_same_targets(aggregation: str) -> None:
    made = server("tinyproto-ft", aps_aggregation=aggregation)
    assert isinstance(made, TinyProtoTgpServer)
    updates = [*scaled_updates(0.1), update("c", 5, {0: [1.0, 2.0, 3.0, 4.0]})]
    pool = made.prepare(Uploads.of(updates), 65)
    other = server(aps_aggregation=aggregation)
    other.aggregate(1, "prototypes", iter(updates))
    means, classes = pool.means()
    assert classes.tolist() == [0, 1]
    assert means == pytest.approx(np.array(list(held(other).values())), abs=1e-6)


def test_factors_by_hand() -> None:
    uploads = np.array([0, 2, 3])
    assert aggregation_factors(Config(), uploads, 60, 40).tolist() == [0.0, 3.0, 4.5]
    assert aggregation_factors(Config(aps_aggregation="mean"), uploads, 60, 40).tolist() == [1.0, 1.0, 1.0]
    assert aggregation_factors(Config(aps=False), uploads, 60, 40).tolist() == [1.0, 1.0, 1.0]


def test_in_the_full_space_uploads_stand_in_their_places() -> None:
    made = server("tinyproto-ft", tgp_space="full", aps=False)
    assert isinstance(made, TinyProtoTgpServer)
    pool = made.prepare(Uploads.of([update("a", 60, {2: [1.0, 2.0, 3.0, 4.0]})]), 60)
    assert pool.prototypes.shape == (1, 8)
    assert pool.prototypes[0, made.masks[2]].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert np.count_nonzero(pool.prototypes) == 4
    wide = made.global_prototypes()
    assert wide.shape == (3, 8)
    sent = made.configure(1, "prototypes").to_payload().arrays["prototypes"]
    assert sent.tolist() == [wide[label, made.masks[label]].tolist() for label in range(3)]


def federation(name: str, **config: Any) -> Federation:
    spec = make_spec(name, method_config={"prototype_dim": 2, **config})
    return Federation(spec, {client: make_data(labels) for client, labels in UNEVEN.items()})


@pytest.mark.parametrize(("name", "known"), [("tinyproto-fp", 3), ("tinyproto-ft", 4)])
@pytest.mark.parametrize(("cps", "dim"), [(True, 2), (False, 6)])
def test_elements_are_those_of_the_paper(name: str, known: int, cps: bool, dim: int) -> None:
    """The sum over clients of (K_i + K_known) s; K_known is K where all prototypes are trained."""
    run = federation(name, cps=cps)
    run.round(1)
    (second,) = run.round(2)
    up = sum(payload.sizes.elements for payload in second.uplinks.values())
    down = len(second.uplinks) * second.downlink.sizes.elements
    assert up + down == sum(held + known for held in (3, 2, 1, 0)) * dim
    assert second.uplinks["a"].sizes.payload_bytes == 4 * 3 * dim + 2 * 3


@pytest.mark.parametrize("name", BOTH)
def test_numbers_of_samples_never_travel(name: str) -> None:
    (exchange,) = methods.find(name).exchanges
    assert {spec.name: spec.metadata["kind"] for spec in fields(exchange.uplink)} == {
        "prototypes": "values", "classes": "class_ids", "masks": "digest",
    }  # fmt: skip


@pytest.mark.parametrize("num_tasks", [1, 2])
@pytest.mark.parametrize("aps", [True, False])
def test_full_masks_and_equal_counts_make_it_fedproto(aps: bool, num_tasks: int) -> None:
    data = {client: make_data([0, 0, 1, 1, 2, 2, 3, 3], seed=seed) for seed, client in enumerate("abc")}
    tasks = TasksConfig(num_tasks=num_tasks)
    config = {"prototype_dim": 6, "aps": aps, "regularizer_weight": 1.0}
    tiny = Federation(make_spec("tinyproto-fp", method_config=config, tasks=tasks), data)
    plain = Federation(make_spec("fedproto", tasks=tasks), data)
    for number in (1, 2, 3):
        for run in (tiny, plain):
            run.round(number)
        assert tiny.server.arrays()["classes"].tolist() == plain.server.arrays()["classes"].tolist()
        difference = tiny.server.arrays()["prototypes"] - plain.server.arrays()["prototypes"]
        assert np.abs(difference).max() < 1e-6
    assert tiny.server.arrays()["classes"].tolist() == [0, 1, 2, 3]


GOOD = Uplink(np.ones((2, DIM), np.float32), np.array([0, 2], np.uint16), "0123456789ab")
SIZES = {"K": 3, "S": DIM}
DIGESTS = {"masks": "0123456789ab" + 52 * "0"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"masks": "ba9876543210"}, "'masks': expected the run's 'masks' with digest 0123456789ab, got ba9876543210"),
        ({"classes": np.array([0, 3], np.uint16)}, "'classes': expected class ids below 3, got 3"),
        (
            {"prototypes": np.array([[1.0] * DIM, [1.0, np.nan, 1.0, 1.0]])},
            "'prototypes', class 2: expected finite values, got nan",
        ),
        ({"prototypes": np.ones((2, DIM + 1), np.float32)}, "'prototypes': expected S = 4, got 5"),
    ],
    ids=["masks of another run", "class outside the label map", "no number", "another dimension"],
)
def test_what_does_not_fit_is_refused_by_name(changes: dict[str, Any], expected: str) -> None:
    assert Uplink.from_payload(GOOD.to_payload(), SIZES, DIGESTS).masks == GOOD.masks
    with pytest.raises(RecordError, match=expected):
        Uplink.from_payload(replace(GOOD, **changes).to_payload(), SIZES, DIGESTS)


def test_small_floats_hold_what_many_samples_weigh() -> None:
    """5,000 samples with features of 100 are half a million, which f16 does not hold before mu but does after it."""
    scaled = scale_local(np.full((1, DIM), 100.0), np.array([5000]), 10 / 60_000)
    came = unpack(pack(Uplink(scaled, np.array([0], np.uint16), GOOD.masks).to_payload("f16")))
    assert came.arrays["prototypes"] == pytest.approx(np.full((1, DIM), 5000 * 100 * 10 / 60_000), rel=1e-3)


def test_what_small_floats_still_do_not_hold_is_refused() -> None:
    scaled = scale_local(np.full((1, DIM), 100.0), np.array([5000]), 1.0)
    with pytest.raises(EncodeError, match=r"'prototypes'.* f16 .*500000"):
        pack(Uplink(scaled, np.array([0], np.uint16), GOOD.masks).to_payload("f16"))


@pytest.mark.parametrize("name", BOTH)
def test_a_state_brings_its_masks_along(name: str) -> None:
    """Prototypes that another run's masks have compressed mean nothing to this run's."""
    made, other = server(name), server(name, seed=1)
    assert state_hash(other.constants()["masks"]) != state_hash(made.constants()["masks"])
    other.load(made.arrays())
    assert state_hash(other.constants()["masks"]) == state_hash(made.constants()["masks"])
    assert state_hash(other.arrays()) == state_hash(made.arrays())


def test_settings_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"prototype_dim = 9: expected at most \[model\] feature_dim = 8"):
        server("tinyproto-ft", prototype_dim=9)
    with pytest.raises(ConfigError, match="mu = 0"):
        server(mu=0)


def test_the_server_is_trained_as_fedtgp_trains() -> None:
    """The settings that both have are the same, with the same defaults."""
    own, theirs = (msgspec.structs.asdict(config) for config in (TgpConfig(), fedtgp.Config()))
    assert {**own, **theirs} == own
