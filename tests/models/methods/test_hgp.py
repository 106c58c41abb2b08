"""HGP: what travels, what is averaged, and what a round leaves of a head."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import checkpoint, methods, nets
from models.checkpoint import state_hash
from models.gaussian_table import Gaussian, GaussianTable
from models.methods.api import Facts, RoundFailedError
from models.methods.hgp import Config, Uplink
from models.methods.hgp.feature_bias import feature_bias
from models.methods.hgp.nets import PromptedVit
from models.nets.vit import Vit
from models.participant import Participant
from models.spec import ConfigError, ModelConfig, RunSpec, TasksConfig
from tests.models.federation import Exchanged, Federation
from tests.models.small_run import UNEVEN, make_data, make_spec
from wire.errors import RecordError
from wire.payload import Payload

METHOD = methods.find("hgp")

VIT = ModelConfig(name="vit", feature_dim=8, patch_size=2, depth=3, num_heads=2)


def spec(model: ModelConfig = VIT, num_tasks: int = 2, **config: Any) -> RunSpec:
    settings = {"prompt_rows": 3, "features_per_class": 8, "rebalance_batch_size": 8, **config}
    return make_spec("hgp", num_rounds=4, model=model, method_config=settings, tasks=TasksConfig(num_tasks=num_tasks))


LABELS = {**UNEVEN, "d": [3, 3, 3, 0]}


def federation(model: ModelConfig = VIT, labels: dict[str, list[int]] = LABELS, **config: Any) -> Federation:
    data = {name: make_data(held, seed=seed) for seed, (name, held) in enumerate(labels.items())}
    return Federation(spec(model, **config), data)


def prompted(run: Federation, client: str = "a") -> PromptedVit:
    net = run.clients[client]._client.context.net
    assert isinstance(net, PromptedVit)
    return net


def average(done: Exchanged, name: str) -> np.ndarray:
    ups = [up.arrays for up in done.uplinks.values() if up.arrays["num_train"][0]]
    weights = [int(up["num_train"][0]) for up in ups]
    return np.average([up[name].astype(np.float64) for up in ups], axis=0, weights=weights)


def test_prompt_and_head_are_all_that_is_trained_and_all_that_travels() -> None:
    run = federation()
    net = prompted(run)
    frozen = state_hash(nets.net_arrays(net.backbone.requires_grad_(True)))
    net.backbone.requires_grad_(False)
    (done,) = run.round(1)
    assert done.uplinks["a"].arrays["parameters"].shape == (2 * 2 * 3 * 8,)
    assert done.uplinks["a"].arrays["head"].shape == (2, 9)
    assert set(run.clients["a"].arrays()) == {"prompt", "head.weight", "head.bias"}
    assert state_hash(nets.net_arrays(net.backbone.requires_grad_(True))) == frozen


def test_predicted_sizes_are_the_measured_ones_in_every_round() -> None:
    run = federation()
    for number in (1, 2, 3, 4):
        for exchanged in run.round(number):
            for client, facts in exchanged.facts.items():
                down = exchanged.exchange.downlink.sizes(exchanged.exchange.downlink_dims(facts))
                up = exchanged.exchange.uplink.sizes(exchanged.exchange.uplink_dims(facts))
                assert (exchanged.downlink.sizes, exchanged.uplinks[client].sizes) == (down, up), (number, client)


def test_of_a_head_that_knows_later_tasks_the_rows_seen_so_far_are_sent() -> None:
    known, run = federation(), federation()
    for number in (1, 2, 3, 4):
        known.round(number)
    run.server.load(known.server.arrays())
    sent = [run.server.configure(number, "prompt").to_payload().arrays["head"] for number in (1, 3)]
    assert [len(head) for head in sent] == [2, 4]
    assert (sent[0] == sent[1][:2]).all()


def test_the_papers_sizes_of_vit_b_16() -> None:
    import torch

    with torch.device("meta"):
        backbone = Vit((3, 224, 224), 768, 100, patch_size=16, depth=12, num_heads=12)
        net = PromptedVit(backbone, Config().num_blocks(12), Config().prompt_rows)
    assert net.prompt.numel() == 768_000
    facts = Facts(
        config=Config(), num_classes=100, num_public_classes=0, feature_dim=768, num_train=500,
        class_counts=[50] * 10 + [0] * 90, known_classes=(), num_parameters=nets.count_parameters(net), num_buffers=0,
        round=1, rounds_completed=1, num_task_classes=10, num_seen=20, metrics={},
    )  # fmt: skip
    dims = METHOD.exchanges[0].uplink_dims(facts)
    assert Uplink.sizes(dims) == (791_050, 4 * 791_050 + 10 * (4 + 2) + 4)
    moments = np.zeros((10, 768), np.float32)
    sent = Uplink(
        np.zeros(768_000, np.float32), np.zeros(0, np.float32), np.zeros((10, 769), np.float32),
        np.array([500], np.uint32), moments, moments, np.full(10, 50, np.uint32),
        np.arange(10, dtype=np.uint16), "0" * 12,
    )  # fmt: skip
    assert sent.to_payload().sizes == Uplink.sizes(dims)
    down = METHOD.exchanges[0].downlink.sizes(METHOD.exchanges[0].downlink_dims(facts))
    assert down.elements == 768_000 + 20 * 769


def test_local_training_moves_the_rows_of_the_task_alone() -> None:
    run = federation(rebalance_epochs=0)
    before = prompted(run).head.weight.detach().numpy().copy()
    run.round(1, ["a"])
    moved = (prompted(run).head.weight.detach().numpy() != before).any(axis=1)
    assert moved.tolist() == [True, True, False, False]


def test_prompt_and_head_are_averaged_by_train_samples() -> None:
    run = federation(rebalance_current=False, rebalance_old=False)
    (done,) = run.round(1)
    state = run.server.arrays()
    assert np.allclose(state["parameters"], average(done, "parameters"), atol=1e-7)
    assert np.allclose(state["head"], average(done, "head"), atol=1e-7)


def rows_rebalanced(run: Federation, number: int) -> list[bool]:
    """Which rows a round leaves other than as they were before it or, those of its task, on average."""
    before = run.server.arrays()["head"]
    (done,) = run.round(number)
    averaged = average(done, "head")
    head = run.server.arrays()["head"]
    expected = np.concatenate([before[: len(head) - len(averaged)], averaged])
    return [bool(changed) for changed in (~np.isclose(head, expected, atol=1e-6)).any(axis=1)]


@pytest.mark.parametrize(
    ("current", "old", "expected"),
    [
        (True, True, [True, True, True, True, True, True]),
        (True, False, [True, True, False, False, True, True]),
        (False, True, [False, False, True, True, False, False]),
        (False, False, [False] * 6),
    ],
)
def test_each_rebalancing_trains_the_rows_of_its_classes(current: bool, old: bool, expected: list[bool]) -> None:
    run = federation(rebalance_current=current, rebalance_old=old)
    assert [*rows_rebalanced(run, 1), *rows_rebalanced(run, 3)] == expected


def test_the_gaussians_of_old_tasks_stay() -> None:
    run = federation()
    for number in (1, 2):
        run.round(number)
    old = run.server.arrays()
    run.round(3)
    new = run.server.arrays()
    assert old["classes"].tolist() == [0, 1, 1]
    assert new["clients"].tobytes().decode().splitlines() == ["a", "a", "b", "b", "d"]
    assert new["classes"].tolist() == [0, 1, 1, 2, 3]
    kept = np.isin(new["classes"], [0, 1])
    assert (new["means"][kept] == old["means"]).all()


def test_those_of_clients_that_are_absent_stay_too() -> None:
    run = federation()
    run.round(1, ["a", "b"])
    run.round(2, ["b"])
    assert run.server.arrays()["clients"].tobytes().decode().splitlines() == ["a", "a", "b"]


def test_a_class_of_one_sample_has_no_gaussian() -> None:
    run = federation(labels={"a": [0, 0, 1], "b": [0]})
    (done,) = run.round(1)
    assert done.uplinks["a"].arrays["classes"].tolist() == [0]
    assert done.uplinks["b"].arrays["classes"].tolist() == []
    assert all(np.isfinite(array).all() for array in run.server.arrays().values())


def test_a_task_of_no_gaussians_is_averaged_alone() -> None:
    run = federation(labels={"a": [0, 1], "b": [1]})
    (done,) = run.round(1)
    assert np.allclose(run.server.arrays()["head"], average(done, "head"), atol=1e-7)


def test_a_task_that_nobody_has_samples_of_fails_the_round() -> None:
    run = federation(labels={"a": [0, 0, 1], "b": [0]})
    run.round(1)
    before = state_hash(run.server.arrays())
    with pytest.raises(RoundFailedError, match="none of 2 updates has a train sample"):
        run.round(3)
    assert state_hash(run.server.arrays()) == before


def test_a_net_that_takes_no_prompt_is_trained_whole() -> None:
    run = federation(ModelConfig(name="cnn", feature_dim=8))
    (done,) = run.round(1)
    head = 4 * 9
    assert len(done.uplinks["a"].arrays["parameters"]) == run.clients["a"].announcement.num_parameters - head


def test_so_is_a_transformer_where_that_is_asked_for() -> None:
    run = federation(tuning="full")
    assert isinstance(run.clients["a"]._client.context.net, Vit)
    run.round(1)


def with_weights(folder: Path, seed: int = 0) -> ModelConfig:
    import torch

    torch.manual_seed(seed)
    net = nets.build_net("vit", (1, 4, 4), 8, 4, patch_size=2, depth=3, num_heads=2)
    path = folder / f"vit-{seed}.safetensors"
    checkpoint.write(path, nets.net_arrays(net))
    return ModelConfig(name="vit", feature_dim=8, patch_size=2, depth=3, num_heads=2, weights=str(path))


def test_all_clients_have_the_backbone_of_the_file(tmp_path: Path) -> None:
    run = federation(with_weights(tmp_path))
    (done,) = run.round(1)
    digests = {up.scalars["backbone"] for up in done.uplinks.values()}
    assert digests == {state_hash(run.server.constants()["backbone"])[:12]}
    assert run.server.constants()["backbone"]["sha256"].shape == (32,)


def test_another_backbone_is_refused_by_its_client(tmp_path: Path) -> None:
    theirs, ours = (spec(with_weights(tmp_path, seed)) for seed in (0, 1))
    constants = METHOD.make_server(theirs, methods.read_config(METHOD, theirs.method_config)).constants()
    with pytest.raises(ConfigError, match=r"client a: expected the run's frozen backbone of digest .*, the file of"):
        Participant(ours, METHOD, "a", make_data([0, 0, 1]), constants)


def test_an_update_of_another_backbone_is_refused(tmp_path: Path) -> None:
    run = federation(with_weights(tmp_path))
    (done,) = run.round(1)
    dims = METHOD.exchanges[0].uplink_dims(done.facts["a"])
    with pytest.raises(RecordError, match="'backbone': expected the run's 'backbone' with digest 0000"):
        Uplink.from_payload(done.uplinks["a"], dims, {"backbone": "0" * 64})


@pytest.mark.parametrize(
    ("name", "content", "refusal"),
    [
        ("variances", np.full((2, 8), -0.5, np.float32), "'variances': expected none below 0, got -0.5"),
        ("counts", np.array([1, 2], np.uint32), "'counts': expected at least 2 samples of each class, got 1"),
        ("counts", np.array([3, 99], np.uint32), "'counts': expected at most num_train = 5 samples in all, got 102"),
        ("means", np.full((2, 8), np.nan, np.float32), "'means', class 0: expected finite values"),
        ("parameters", np.zeros(95, np.float32), "'parameters': expected Q = 96, got 95"),
    ],
)
def test_an_update_that_no_samples_can_have_given_is_refused(name: str, content: np.ndarray, refusal: str) -> None:
    (done,) = federation().round(1)
    sent = done.uplinks["a"]
    tensors = {**sent.tensors, name: sent.tensors[name]._replace(data=content)}
    dims = {"K": 4, **METHOD.exchanges[0].uplink_dims(done.facts["a"])}
    with pytest.raises(RecordError, match=refusal):
        Uplink.from_payload(Payload(tensors, sent.scalars), dims)


@pytest.mark.parametrize(
    ("model", "config", "refusal"),
    [
        (ModelConfig(name="cnn", feature_dim=8), {"tuning": "prompt"}, r"needs \[model\] name = 'vit', got 'cnn'"),
        (ModelConfig(name="vit", init="per_client"), {}, "expected 'common', as all clients share one frozen backbone"),
    ],
)
def test_a_run_that_does_not_fit_is_refused(model: ModelConfig, config: dict[str, Any], refusal: str) -> None:
    with pytest.raises(ConfigError, match=refusal):
        METHOD.make_server(spec(model, **config), methods.read_config(METHOD, config))


def test_a_prompt_for_more_blocks_than_there_are_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"prompt_blocks = 4: expected at most .* depth = 3"):
        federation(prompt_blocks=4)


def test_five_of_twelve_blocks_have_a_prompt() -> None:
    assert [Config().num_blocks(depth) for depth in (12, 6, 4, 1)] == [5, 3, 2, 1]
    assert Config(prompt_blocks=3).num_blocks(12) == 3


def test_the_feature_bias_is_the_mean_distance_of_two_clients_means() -> None:
    means = {0: [np.array([0.0, 0.0]), np.array([3.0, 4.0])], 1: [np.array([1.0, 1.0])], 2: [np.zeros(2)] * 3}
    assert feature_bias(means) == pytest.approx(2.5)
    assert np.isnan(feature_bias({1: [np.zeros(2)]}))


def test_a_table_of_gaussians_comes_back_from_its_arrays() -> None:
    table, other = GaussianTable(2), GaussianTable(2)
    assert table.mixture(range(4)) is None
    for client, label in (("b", 1), ("a", 3)):
        table.put(client, label, Gaussian(np.ones(2, np.float32) * label, np.ones(2, np.float32), 5))
    other.load(table.arrays())
    assert state_hash(other.arrays()) == state_hash(table.arrays())
    mixture = other.mixture(range(2))
    assert mixture is not None
    assert mixture.classes.tolist() == [1]
