from typing import Any

import numpy as np
import pytest
from torch.nn.functional import cross_entropy

from models import methods, nets
from models.checkpoint import state_hash
from models.methods.api import ClientContext
from models.spec import ConfigError, ModelConfig, TrainingConfig
from tests.models.federation import Federation
from tests.models.small_run import UNEVEN, make_data, make_spec

METHOD = methods.find("fedprox")
MLP = ModelConfig("mlp", feature_dim=6)


def federation(method: str, **changes: Any) -> Federation:
    return Federation(make_spec(method, **changes), {name: make_data(labels) for name, labels in UNEVEN.items()})


def test_without_weight_it_is_federated_averaging_bit_for_bit() -> None:
    runs = [federation("fedavg"), federation("fedprox", method_config={"proximal_weight": 0.0})]
    for number in (1, 2, 3):
        sent = [[state_hash(up.arrays) for done in run.round(number) for up in done.uplinks.values()] for run in runs]
        assert sent[0] == sent[1]
        assert state_hash(runs[0].server.arrays()) == state_hash(runs[1].server.arrays())


def test_two_steps_by_hand() -> None:
    """The first step starts at the global model, where the term is flat; the second is pulled back by mu (w - w0)."""
    weight, lr = 5.0, 0.1
    training = TrainingConfig(local_epochs=2, batch_size=6, lr=lr, momentum=0.0)
    run = federation("fedprox", method_config={"proximal_weight": weight}, training=training, model=MLP)
    context = federation("fedavg", model=MLP).clients["a"]._client.context
    start = nets.flatten_parameters(context.net)
    first = start - lr * slope(context, start)
    second = first - lr * (slope(context, first) + weight * (first - start))
    (done,) = run.round(1)
    assert np.allclose(done.uplinks["a"].arrays["parameters"], second, atol=1e-6)
    assert not np.allclose(second, first - lr * slope(context, first), atol=1e-3)


def slope(context: ClientContext, parameters: np.ndarray) -> np.ndarray:
    """The gradient of the mean cross-entropy over all samples."""
    net = context.net
    nets.load_flat(net, parameters, np.zeros(0, np.float32))
    net.zero_grad()
    cross_entropy(net(context.train_x), context.train_y).backward()
    return np.concatenate([tensor.grad.numpy().ravel() for tensor in net.parameters() if tensor.grad is not None])


def test_the_model_that_came_is_held_while_training_alone() -> None:
    run = federation("fedprox")
    half: Any = run.clients["a"]._client
    run.round(1)
    assert half._global == []


def test_a_heavier_weight_keeps_clients_nearer_to_the_global_model() -> None:
    moved = []
    for weight in (0.0, 1.0, 10.0):
        training = TrainingConfig(local_epochs=10, batch_size=4, lr=0.02, momentum=0.0)
        run = federation("fedprox", method_config={"proximal_weight": weight}, training=training)
        start = nets.flatten_parameters(run.clients["a"]._client.context.net)
        run.round(1)
        moved.append(np.linalg.norm(nets.flatten_parameters(run.clients["a"]._client.context.net) - start))
    assert moved[0] > moved[1] > moved[2] > 0


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"proximal_weight = -1\.0"):
        methods.read_config(METHOD, {"proximal_weight": -1.0})
