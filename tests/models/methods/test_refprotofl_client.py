from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from torch import nn

from models import methods
from models.data import ClientData, load_public_data
from models.methods.api import ClientContext
from models.methods.refprotofl import (
    AdapterDown,
    AdapterUp,
    AnchorsDown,
    Config,
    PrototypesUp,
    adapter_size,
    initial_adapter,
)
from models.methods.refprotofl.client import RefProtoFLClient, most_changed
from models.methods.refprotofl.nets import AdaptedNet
from models.nets import build_net, count_parameters, flatten_parameters
from models.participant import Participant
from models.prototypes import WeightedMean
from models.spec import ConfigError, DataConfig, ModelConfig, RunSpec
from models.training import Batch
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec

METHOD = methods.find("refprotofl")

DATA = DataConfig(dataset="tests.models.small_run:load", public_per_class=2, public_classes=2)


def spec_of(config: Mapping[str, Any] | None = None, **changes: Any) -> RunSpec:
    own = {"adapter_dim": 8, **(config or {})}
    return make_spec("refprotofl", method_config=own, **{"data": DATA, "model": ModelConfig(feature_dim=16), **changes})


def federation(labels: Mapping[str, list[int]] = UNEVEN, **config: Any) -> Federation:
    return Federation(spec_of(config), {name: make_data(held) for name, held in labels.items()})


def adapter_in(run: Federation, name: str) -> np.ndarray:
    """The adapter that a client has now."""
    net: Any = run.clients[name]._client.context.net
    return flatten_parameters(net.adapter)


def test_the_most_changed_entries_are_sent() -> None:
    old = np.array([-0.746, 0.359, 0.403, -0.4, -2.019, 0.421, 0.26], np.float32)
    new = np.array([-1.452, 0.744, 0.053, -0.963, -1.971, 0.332, 0.362], np.float32)
    assert most_changed(new - old, 3).tolist() == [0, 1, 3]
    assert most_changed(new - old, 7).tolist() == list(range(7))


def test_of_equal_changes_the_first_are_sent() -> None:
    assert most_changed(np.array([0.0, -1, 1, 2, 1, -1], np.float32), 3).tolist() == [1, 2, 3]
    assert most_changed(np.zeros(5, np.float32), 2).tolist() == [0, 1]


def test_the_net_is_the_backbone_with_an_adapter_for_its_head() -> None:
    backbone = build_net("cnn", (1, 8, 8), 16, 4)
    alone = count_parameters(backbone) - (16 + 1) * 4
    net = METHOD.extend_net(backbone, spec_of(), Config(adapter_dim=8))
    assert isinstance(net, AdaptedNet)
    assert (net.head.in_features, net.head.out_features) == (8, 4)
    assert count_parameters(net) == alone + adapter_size(Config(adapter_dim=8), 16, 4)
    shapes = [list(tensor.shape) for tensor in net.adapter.parameters()]
    assert shapes == [[8, 16], [8], [4, 8], [4]]
    x = torch.randn(3, 1, 8, 8)
    net.eval()
    expected = torch.relu(net.backbone.features(x) @ net.transform.weight.T + net.transform.bias)
    assert torch.allclose(net.features(x), expected, atol=1e-6)


def test_the_papers_net_is_resnet18_with_group_norm() -> None:
    pytest.importorskip("torchvision")
    net = METHOD.extend_net(build_net("resnet18", (1, 28, 28), 512, 10, norm="group"), spec_of(), Config())
    assert isinstance(net, AdaptedNet)
    assert sum(tensor.numel() for tensor in net.adapter.parameters()) == 66_954
    assert not any(isinstance(module, nn.BatchNorm2d) for module in net.modules())


def test_clients_begin_with_the_same_adapter_whatever_their_backbones() -> None:
    run = Federation(
        spec_of(model=ModelConfig(feature_dim=16, init="per_client")),
        {name: make_data(held) for name, held in UNEVEN.items()},
    )
    backbones = {name: client.arrays()["backbone.body.0.0.weight"].tobytes() for name, client in run.clients.items()}
    assert len(set(backbones.values())) == len(UNEVEN)
    for name in UNEVEN:
        run._perform(name, 1, 0, run._downlink(1, METHOD.exchanges[0]))
        assert (adapter_in(run, name) == initial_adapter(run.spec, Config(adapter_dim=8))).all()


class Itself(AdaptedNet):
    """Samples are their own embeddings, of dimension 2."""

    def __init__(self) -> None:
        super().__init__(build_net("mlp", (2,), 2, 4), 2)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return x


PUBLIC: Mapping[str, np.ndarray] = {
    "x": np.array([[2, 0], [4, 2], [1, 1], [1, 3]], np.float32),
    "y": np.array([0, 0, 1, 1], np.uint16),
}


for received in PUBLIC.values():  # so are arrays from a message or a file
    received.flags.writeable = False


def client(public: Mapping[str, np.ndarray] = PUBLIC, num_public: int = 2, **config: Any) -> RefProtoFLClient:
    """A client with one sample of class 0, two of class 2, one of class 3; by default classes 0 and 1 are public."""
    data = DataConfig(public_per_class=2, public_classes=num_public)
    spec = make_spec("refprotofl", data=data, model=ModelConfig(feature_dim=2))
    made = RefProtoFLClient(spec, Config(**{"adapter_dim": 2, "budget": 3, **config}))
    x, y = torch.tensor([[9.0, 9], [1, 2], [3, 6], [5, 5]]), torch.tensor([0, 2, 2, 3])
    context = ClientContext("a", Itself(), torch.device("cpu"), x, y, np.array([1, 0, 2, 1]), {"public": public})
    made.start(context)
    return made


def test_prototypes_are_public_where_there_are_public_samples_and_else_local() -> None:
    record = client().uplink("prototypes")
    assert isinstance(record, PrototypesUp)
    assert record.public.tolist() == [[3, 1], [1, 2]]
    assert record.local.tolist() == [[2, 4], [5, 5]]
    assert (record.classes.tolist(), record.counts.tolist()) == ([2, 3], [2, 1])


@pytest.mark.parametrize("config", [{"erpa": False}, {"anchor_weight": 0.0}])
def test_without_alignment_no_prototype_goes_up(config: dict[str, Any]) -> None:
    assert client(**config).uplink("prototypes").to_payload().sizes == (0, 0)


def test_images_are_scaled_as_a_clients_own_are() -> None:
    own: dict[str, np.ndarray] = {"x": np.full((1, 1, 1, 2), 255, np.uint8), "y": np.zeros(1, np.uint16)}
    made = client()
    made.context.train_x = torch.zeros(1, 1, 1, 2)
    made.context.train_y = torch.zeros(1, dtype=torch.int64)
    made.context.constants = {"public": own}
    made.start(made.context)
    made.context.net.features = lambda x: x.flatten(1)  # type: ignore[method-assign]
    record = made.uplink("prototypes")
    assert isinstance(record, PrototypesUp)
    assert record.public.tolist() == [[1, 1]]


ANCHORS = AnchorsDown(np.array([[0, 0], [1, 1]], np.float32), np.array([0, 2], np.uint16))


def entropy_of(made: RefProtoFLClient, batch: Batch) -> float:
    return nn.functional.cross_entropy(made.context.net.head(batch.x), batch.y).item()


def test_the_loss_by_hand() -> None:
    """Squares 1 + 4 and 4 + 0, and a class without an anchor, over a batch of three."""
    made = client(anchor_weight=0.5)
    made.receive("adapter", ANCHORS)
    batch = Batch(torch.tensor([[1.0, 2], [3, 1], [7, 7]]), torch.tensor([0, 2, 3]))
    assert made.loss(batch).item() - entropy_of(made, batch) == pytest.approx(0.5 * 9 / 3, abs=1e-5)


def test_without_anchors_the_loss_is_cross_entropy_alone() -> None:
    made = client()
    batch = Batch(torch.tensor([[1.0, 2]]), torch.tensor([0]))
    assert made.loss(batch).item() == entropy_of(made, batch)


@pytest.mark.parametrize("payload", ["delta", "value"])
def test_the_adapter_uplink_by_hand(payload: str) -> None:
    made = client(payload=payload)
    start = np.arange(18, dtype=np.float32) / 8
    made.receive("prototypes", AdapterDown(start))
    made.receive("adapter", ANCHORS)
    net: Any = made.context.net
    with torch.no_grad():
        net.transform.bias[1] += 0.5
        net.head.weight[0, 0] -= 0.75
        net.head.bias[3] += 0.25
    record = made.uplink("adapter")
    assert isinstance(record, AdapterUp)
    assert record.positions.tolist() == [5, 6, 17]
    changes = np.array([0.5, -0.75, 0.25])
    assert record.entries.tolist() == (changes if payload == "delta" else start[[5, 6, 17]] + changes).tolist()
    assert record.num_train.tolist() == [4]


def test_without_dropping_all_entries_are_sent() -> None:
    made = client(apud=False)
    made.receive("prototypes", AdapterDown(np.zeros(18, np.float32)))
    made.receive("adapter", ANCHORS)
    record = made.uplink("adapter")
    assert isinstance(record, AdapterUp)
    assert record.positions.tolist() == list(range(18))


def test_an_adapter_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected 18 entries, got shape \(17,\)"):
        client().receive("prototypes", AdapterDown(np.zeros(17, np.float32)))


@pytest.mark.parametrize(
    ("public", "text"),
    [
        (
            {**PUBLIC, "y": np.array([0, 0, 1, 4], np.uint16)},
            r"client a: public data: label 4 is outside .* 0\.\.3 \['0'",
        ),
        ({**PUBLIC, "y": np.array([0, 0, 1], np.uint16)}, r"expected samples of shape \[2\] with a label each"),
        ({**PUBLIC, "x": np.zeros((4, 3), np.float32)}, r"expected samples of shape \[2\] .*got \(4, 3\)"),
    ],
)
def test_public_data_that_do_not_fit_are_refused_by_name(public: Mapping[str, np.ndarray], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        client(public)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="no accuracy rule 'oracle'"):
        client().predict("oracle", torch.zeros(1, 2))


def test_a_device_refuses_public_data_of_another_shape_than_its_own() -> None:
    spec = spec_of()
    held = load_public_data(spec)
    made = make_data([0, 1])
    wide = ClientData(made.train_x.repeat(2, axis=3), made.train_y, made.test_x, made.test_y, made.classes)
    with pytest.raises(ConfigError, match=r"expected samples of shape \[1, 4, 8\] .*got \(4, 1, 4, 4\)"):
        Participant(spec, METHOD, "a", wide, {"public": {"x": held.x, "y": held.y.astype(np.uint16)}})


@pytest.mark.parametrize("payload", ["delta", "value"])
def test_without_both_parts_the_adapter_is_averaged_whole(payload: str) -> None:
    """ERPA and APUD off is federated averaging of the adapter, behind backbones that stay where they are."""
    run = federation(erpa=False, apud=False, payload=payload)
    run.round(1)
    mean = WeightedMean()
    for name in UNEVEN:
        mean.add(adapter_in(run, name), len(UNEVEN[name]))
    assert run.server.arrays()["adapter"] == pytest.approx(mean.mean(), abs=1e-6)
    backbones = [client.arrays()["backbone.body.0.0.weight"] for client in run.clients.values()]
    assert not np.array_equal(backbones[0], backbones[1])


@pytest.mark.parametrize("budget", [adapter_size(Config(adapter_dim=8), 16, 4), 10**6, 1.0])
def test_a_budget_of_all_entries_is_as_good_as_no_dropping(budget: float) -> None:
    whole, none = federation(budget=budget), federation(apud=False)
    for run in (whole, none):
        run.round(1)
        run.round(2)
    assert (whole.server.arrays()["adapter"] == none.server.arrays()["adapter"]).all()


def test_alignment_pulls_embeddings_to_the_anchors() -> None:
    """With a large weight the distance to the anchors after training is far smaller than without."""
    distances = []
    for weight in (1e-9, 1.0):
        run = federation({"a": [0, 1] * 8}, anchor_weight=weight)
        run.round(1)
        inner: Any = run.clients["a"]._client
        with torch.no_grad():
            embeddings = inner.context.net.features(inner.context.train_x)
        anchors = run.server.arrays()["anchors"][inner.context.train_y.numpy()]
        distances.append(float(np.square(embeddings.numpy() - anchors).sum(axis=1).mean()))
    assert distances[1] < distances[0]


@pytest.mark.parametrize("payload", ["delta", "value"])
def test_who_never_had_the_first_exchange_trains_from_the_first_adapter(payload: str) -> None:
    run = federation(apud=False, payload=payload)
    run.round(1, ["a", "b"])
    run._exchange(2, 0, ["a", "b"])
    done = run._exchange(2, 1, ["a", "b", "c"])
    sent = done.uplinks["c"].arrays["entries"]
    first, came_to = initial_adapter(run.spec, Config(adapter_dim=8)), adapter_in(run, "c")
    assert 0 < np.abs(came_to - first).max() < 0.05
    assert sent == pytest.approx(came_to - first if payload == "delta" else came_to, abs=1e-7)


def test_who_drops_out_between_the_exchanges_is_in_neither_average_it_missed() -> None:
    """Client b sends prototypes but no adapter: its prototypes count, its adapter does not."""
    run, others = federation(), federation()
    for each in (run, others):
        first = each._exchange(1, 0, ["a", "b"])
        assert set(first.uplinks) == {"a", "b"}
    run._exchange(1, 1, ["a"])
    others._exchange(1, 1, ["a", "b"])
    assert (run.server.arrays()["anchors"] == others.server.arrays()["anchors"]).all()
    alone = run.server.arrays()["adapter"]
    start = initial_adapter(run.spec, run.clients["a"]._client.config)
    moved = adapter_in(run, "a")
    positions = most_changed(moved - start, len(np.flatnonzero(alone != start)))
    assert alone[positions] == pytest.approx(moved[positions], abs=1e-6)
    assert (alone != others.server.arrays()["adapter"]).any()


def test_a_client_without_samples_sends_nothing_and_takes_part_again() -> None:
    run = federation()
    first, second = run.round(1)
    assert first.uplinks["d"].sizes == (0, 0)
    assert second.uplinks["d"].sizes.elements == 0
    assert second.uplinks["d"].arrays["num_train"].tolist() == [0]
    assert len(run.round(2)) == 2


def test_elements_are_those_of_the_paper() -> None:
    """Up |C_pub| m + m for each class held without public samples, then the budget; down the adapter, then anchors."""
    run = federation()
    run.round(1)
    first, second = run.round(2)
    size = adapter_size(Config(adapter_dim=8), 16, 4)
    assert first.downlink.sizes.elements == size == 172
    assert {name: payload.sizes.elements for name, payload in first.uplinks.items()} == {
        "a": (2 + 1) * 8,
        "b": (2 + 1) * 8,
        "c": (2 + 1) * 8,
        "d": 0,
    }
    assert first.uplinks["a"].sizes.payload_bytes == (2 + 1) * 8 * 4 + 4 + 2
    assert second.downlink.sizes == (3 * 8, 3 * 8 * 4 + 3 * 2)
    assert second.uplinks["a"].sizes.elements == round(0.1 * size)


def test_the_public_samples_are_a_run_constant() -> None:
    constants = federation().server.constants()
    public = constants["public"]
    assert (public["x"].shape, public["y"].dtype.name) == ((4, 1, 4, 4), "uint16")
    assert np.bincount(public["y"]).tolist() == [2, 2]
    without = msgspec.structs.replace(DATA, public_per_class=0)
    assert METHOD.make_server(spec_of(data=without), Config(adapter_dim=8)).constants() == {}


def test_without_public_samples_all_prototypes_are_local() -> None:
    spec = spec_of(data=msgspec.structs.replace(DATA, public_per_class=0))
    run = Federation(spec, {name: make_data(held) for name, held in UNEVEN.items()})
    first, second = run.round(1)
    assert {name: payload.sizes.elements for name, payload in first.uplinks.items()} == {
        "a": 24,
        "b": 16,
        "c": 8,
        "d": 0,
    }
    assert second.downlink.sizes.elements == 3 * 8
