"""Clients trained together come to what each comes to alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from models import methods
from models.batched import Together
from models.methods.api import Client
from models.nets import NetShelf
from models.nets.cnn import Cnn
from models.participant import Participant
from models.spec import ModelConfig, RunSpec, TrainingConfig
from models.training import train
from tests.models.federation import Federation
from tests.models.small_run import ON_CPU, make_data, make_spec

LABELS = {
    "a": [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 0, 1],
    "b": [1, 1, 2, 2, 2, 0, 3, 1],
    "c": [3, 2, 1],
    "d": [2],
    "e": [],
}
"""Labels of five clients: of three, two and one batch of 4 or a part of it, of one sample, and of none."""

BATCHED = ("local_only", "fedavg", "fedprox", "fednova", "fedproto", "fedtgp", "tinyproto-fp", "tinyproto-ft", "gfpl",
           "refprotofl", "headcal")  # fmt: skip
"""Every method whose local step is a plain loss; see `test_every_method_says_whether_it_can_be_batched`."""


def clients_at_work(spec: RunSpec) -> dict[str, Participant]:
    """Return clients that are about to train in round 2, in float64; each has a net of its own."""
    federation = Federation(spec, {name: make_data(labels, seed=len(name)) for name, labels in LABELS.items()})
    federation.round(1)
    exchange = next(index for index, each in enumerate(federation.method.exchanges) if each.trains)
    for index in range(exchange + 1):
        downlink = federation.server.configure(2, federation.method.exchanges[index].name).to_payload()
        for client in federation.clients.values():
            client.take_up(2, index, 1, downlink)
    for client in federation.clients.values():
        context = client.client.context
        context.net.double()
        context.train_x = context.train_x.double()
    return federation.clients


def trained_alone(client: Client, config: TrainingConfig, seed: int) -> tuple[float, dict[str, torch.Tensor]]:
    net, drawn = client.context.net, torch.get_rng_state()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    loss = train(client, config, seed)
    after = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.load_state_dict(before)
    torch.set_rng_state(drawn)
    return loss, after


def see_equal(spec: RunSpec, exchange: str) -> None:
    """Train all clients both ways and compare."""
    together, alone = Together(spec.training), []
    for number, participant in enumerate(clients_at_work(spec).values()):
        client = participant.client
        assert client.can_batch(exchange)
        client.before_training(exchange, number)
        alone.append(trained_alone(client, spec.training, number))
        together.add(client, number)
    for (loss, state), trained in zip(alone, together.train(), strict=True):
        assert trained.loss == pytest.approx(loss, abs=1e-6)
        for name, tensor in trained.state.items():
            torch.testing.assert_close(tensor, state[name], rtol=0, atol=1e-9, msg=name)


@pytest.mark.parametrize("method", BATCHED)
def test_three_steps_make_the_same_of_every_client(method: str) -> None:
    model = ModelConfig(name="mlp", feature_dim=6, init="common")
    training = TrainingConfig(local_steps=3, batch_size=4, lr=0.05, weight_decay=0.01)
    exchange = next(each.name for each in methods.find(method).exchanges if each.trains)
    see_equal(make_spec(method, model=model, training=training), exchange)


@pytest.mark.parametrize(
    ("net", "changes"),
    [
        ("cnn", {}),
        ("cnn", {"optimizer": "adam", "local_epochs": 2}),
        ("fedpa-cnn", {"clip_norm": 0.1}),
        ("mlp", {"optimizer": "adam", "batch_size": 1}),
    ],
)
def test_nets_with_batch_norm_optimizers_and_clipping_too(net: str, changes: dict[str, Any]) -> None:
    training = TrainingConfig(**{"local_epochs": 1, "batch_size": 4, "lr": 0.05, **changes})
    see_equal(make_spec("fedavg", model=ModelConfig(name=net, feature_dim=6), training=training), "model")


def test_what_hears_of_the_steps_may_abandon_them() -> None:
    class AbandonedError(Exception):
        pass

    def on_progress(done: int, total: int) -> None:
        heard.append((done, total))
        if done == 2:
            raise AbandonedError

    heard: list[tuple[int, int]] = []
    spec = make_spec("local_only", training=TrainingConfig(local_steps=3, batch_size=4))
    together = Together(spec.training)
    for number, participant in enumerate(clients_at_work(spec).values()):
        together.add(participant.client, number)
    with pytest.raises(AbandonedError):
        together.train(on_progress)
    assert heard == [(1, 3), (2, 3)]


def test_every_method_says_whether_it_can_be_batched() -> None:
    needs = [name for name in methods.names() if methods.find(name).needs_net]
    can = []
    for name in needs:
        method = methods.find(name)
        spec = make_spec(name)
        client = method.make_client(spec, methods.read_config(method, {}))
        can += [name] if any(client.can_batch(each.name) for each in method.exchanges if each.trains) else []
    assert sorted(can) == sorted([*BATCHED, "hgp"])


class DropNet(torch.nn.Module):
    """A net that drops before and after its features' last layer."""

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> None:
        super().__init__()
        layers = [torch.nn.Flatten(), torch.nn.Dropout(0.2), torch.nn.Linear(16, feature_dim), torch.nn.Dropout(0.5)]
        self.body = torch.nn.Sequential(*layers)
        self.head = torch.nn.Linear(feature_dim, num_classes)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.body(x)
        return made

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.head(self.features(x))
        return made


def test_every_client_drops_what_it_would_drop_alone() -> None:
    model = ModelConfig(name=f"{__name__}:DropNet", feature_dim=6)
    see_equal(make_spec("fedavg", model=model, training=TrainingConfig(local_epochs=1, batch_size=4)), "model")


class NormedDropNet(DropNet):
    """The same with batch norm, which a single sample passes by running statistics."""

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> None:
        super().__init__(input_shape, feature_dim, num_classes)
        self.body.append(torch.nn.BatchNorm1d(feature_dim))


def test_a_batch_of_one_sample_passes_batch_norm_where_something_is_dropped() -> None:
    model = ModelConfig(name=f"{__name__}:NormedDropNet", feature_dim=6)
    see_equal(make_spec("fedavg", model=model, training=TrainingConfig(local_epochs=1, batch_size=4)), "model")


class FrozenNormCnn(Cnn):
    """A net with a batch norm that all clients share, as nothing trains it."""

    def __init__(self, input_shape: tuple[int, ...], feature_dim: int, num_classes: int) -> None:
        super().__init__(input_shape, feature_dim, num_classes)
        for module in self.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.requires_grad_(False)


def test_batch_norm_that_nothing_trains() -> None:
    model = ModelConfig(name=f"{__name__}:FrozenNormCnn", feature_dim=6)
    see_equal(make_spec("fedavg", model=model, training=TrainingConfig(local_steps=3, batch_size=4)), "model")


class OwnLoss(Client):
    """A client whose author has said nothing of batching."""

    def receive(self, exchange: str, downlink: Any) -> None:
        pass

    def uplink(self, exchange: str) -> Any:
        pass

    def loss(self, batch: Any) -> torch.Tensor:
        return torch.zeros(())


def test_a_loss_of_ones_own_is_not_batched_unless_it_says_so() -> None:
    assert not OwnLoss(make_spec("fedavg"), None).can_batch("model")


def test_a_net_on_the_shelf_is_put_back_and_not_changed_by_the_others() -> None:
    """All clients of a simulation share one net: what one takes in is its own by the time the next one comes."""
    model, shelf = ModelConfig(name="mlp", feature_dim=6), NetShelf()
    spec = make_spec("local_only", model=model, training=ON_CPU)
    method = methods.find("local_only")
    together = Together(spec.training)
    for seed, labels in enumerate([[0, 1, 2, 3], [3, 3, 3, 3]]):
        client = Participant(spec, method, str(seed), make_data(labels), shelf=shelf).client
        together.add(client, seed)
        for parameter in client.context.net.parameters():
            torch.nn.init.constant_(parameter, np.nan)
    assert all(np.isfinite(trained.loss) for trained in together.train())
