"""What numpy computes in place of torch: the same gradients, steps and predictions."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from models import methods
from models.methods.api import ClientContext
from models.methods.fedproto import Downlink
from models.methods.numpy_client import NumpyClient
from models.nets.affine import AffineNet
from models.spec import ConfigError, ModelConfig, TrainingConfig
from models.steps import AbandonedError
from tests.models.small_run import make_spec
from wire.payload import Record

FEDPROTO = methods.find("fedproto")
X = np.random.default_rng(1).normal(size=(9, 5)).astype(np.float32)
Y = np.array([0, 0, 1, 1, 2, 2, 2, 0, 1])
PROTOTYPES = np.array([[1.0, 0.0, 2.0], [0.0, -1.0, 1.0]], np.float32)


def client(method: str = "fedproto", feature_dim: int = 3, **training: Any) -> NumpyClient:
    """A client half over features of width 5, which holds three of four classes."""
    made = methods.find(method)
    model = ModelConfig(name="onnx", feature_dim=feature_dim)
    config = TrainingConfig(**{"local_epochs": 2, "batch_size": 4, "lr": 0.05, **training})
    spec = make_spec(method, model=model, training=config)
    half = made.make_numpy_client(spec, methods.read_config(made, {}))
    net: Any = AffineNet(5, feature_dim, 4, np.random.default_rng(0))
    x: Any = X
    y: Any = Y
    half.start(ClientContext("a", net, None, x, y, np.bincount(Y, minlength=4)))  # type: ignore[arg-type]
    return half


def pulled() -> NumpyClient:
    """One that knows the global prototypes of classes 0 and 2."""
    half = client()
    half.receive("prototypes", Downlink(PROTOTYPES, np.array([0, 2], np.uint16)))
    return half


def torch_loss(parameters: dict[str, torch.Tensor], x: np.ndarray, y: np.ndarray, weight: float) -> torch.Tensor:
    """The loss of FedProto, Eq. (7), as its torch half writes it."""
    features = torch.from_numpy(x) @ parameters["projection.weight"].T + parameters["projection.bias"]
    logits = features @ parameters["head.weight"].T + parameters["head.bias"]
    known = torch.from_numpy(np.isin(y, [0, 2]))
    targets = torch.from_numpy(PROTOTYPES)[torch.from_numpy((y == 2).astype(np.int64))]
    distance = (features - targets)[known].square().mean(dim=1).sum() / len(y)
    return cross_entropy(logits, torch.from_numpy(y)) + weight * distance


def test_gradients_are_those_of_torch() -> None:
    half = pulled()
    tensors = {name: torch.from_numpy(array.copy()).requires_grad_() for name, array in half.net.parameters.items()}
    expected = torch_loss(tensors, X, Y, weight=1.0)
    expected.backward()
    loss, gradients = half.gradients(X, Y)
    assert loss == pytest.approx(expected.item(), abs=1e-5)
    assert set(gradients) == set(tensors)
    for name, tensor in tensors.items():
        assert tensor.grad is not None
        assert np.allclose(gradients[name], tensor.grad.numpy(), atol=1e-5), name


def test_a_batch_of_unknown_classes_is_cross_entropy_alone() -> None:
    half = pulled()
    assert half.feature_term(half.net.features(X[2:4]), Y[2:4]) is None
    assert half.feature_term(half.net.features(X[:2]), Y[:2]) is not None


def test_local_training_is_repeatable_and_lowers_the_loss() -> None:
    losses = [client(local_epochs=epochs).local_train("prototypes", 7, None) for epochs in (1, 1, 30)]
    assert losses[0] == losses[1] > losses[2]


def test_a_gradient_is_clipped_as_torch_clips() -> None:
    half, limit = client(local_steps=1, batch_size=9, momentum=0.0, clip_norm=0.1), 0.1
    before = half.arrays()
    half.local_train("prototypes", 0, None)
    moved = {name: before[name] - array for name, array in half.arrays().items()}
    norm = np.sqrt(sum(np.square(array).sum() for array in moved.values()))
    assert norm == pytest.approx(0.05 * limit, rel=1e-3)


def test_rules_by_hand() -> None:
    half = pulled()
    said = half.predictions(X, ["head", "local_prototype", "global_prototype"])
    features = half.net.features(X)
    assert said["head"].tolist() == half.net.head(features).argmax(axis=1).tolist()
    distances = ((features[:, None] - PROTOTYPES) ** 2).sum(axis=2)
    assert said["global_prototype"].tolist() == np.array([0, 2])[distances.argmin(axis=1)].tolist()
    means = np.stack([features[label == Y].mean(axis=0) for label in range(3)])
    assert said["local_prototype"].tolist() == ((features[:, None] - means) ** 2).sum(axis=2).argmin(axis=1).tolist()
    assert client().predictions(X, ["global_prototype"])["global_prototype"].tolist() == [-1] * 9


def test_a_client_goes_on_from_its_arrays() -> None:
    one, other = pulled(), client()
    one.local_train("prototypes", 0, None)
    other.load({name: array.copy() for name, array in one.arrays().items()})
    for half in (one, other):
        half.local_train("prototypes", 1, None)
    assert all((other.arrays()[name] == array).all() for name, array in one.arrays().items())


def test_a_method_that_trains_the_whole_net_refuses_a_frozen_one() -> None:
    with pytest.raises(ConfigError, match="name = 'onnx': fedavg trains the whole net"):
        methods.find("fedavg").check_net("onnx")
    FEDPROTO.check_net("onnx")


def test_only_the_head_of_a_frozen_projection_is_trained() -> None:
    half = client("headcal", feature_dim=5)
    assert (half.net.features(X) == X).all(), "of equal widths the backbone's features are kept"
    assert set(half.arrays()) == {"head.weight", "head.bias", "global_head", "global_counts"}
    half.net.by_projection = pytest.fail  # type: ignore[method-assign,assignment]
    half.local_train("statistics", 0, None)
    assert (half.net.features(X) == X).all()


def test_hooks_stand_around_training_however_it_ends() -> None:
    told: list[object] = []

    class Hooked(NumpyClient):
        def before_training(self, exchange: str, seed: int) -> None:
            told.append((exchange, seed))

        def after_training(self) -> None:
            told.append("after")

        def receive(self, exchange: str, downlink: Any) -> None:
            pytest.fail("nothing is sent")

        def uplink(self, exchange: str) -> Record:
            pytest.fail("nothing is asked for")

    plain = client("local_only")
    half = Hooked(plain.spec, plain.config)
    half.start(plain.context)
    loss = half.local_train("all", 3, None)
    assert told == [("all", 3), "after"]
    assert loss == client("local_only").local_train("all", 3, None)
    with pytest.raises(AbandonedError):
        half.local_train("all", 4, abandon)
    assert told[2:] == [("all", 4), "after"]


def abandon(done: int, total: int) -> None:
    raise AbandonedError
