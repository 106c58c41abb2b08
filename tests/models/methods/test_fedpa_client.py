from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from models.evaluation import evaluate
from models.methods.fedpa import Config, Downlink, Uplink
from models.methods.fedpa.client import FedPaClient
from models.methods.fedpa.generator import Generator, Order, draw
from models.nets import flatten_buffers, flatten_parameters
from models.spec import ConfigError, ModelConfig, TrainingConfig
from models.training import Batch
from tests.models.small_run import make_spec
from tests.models.test_evaluation import client as plain_client

SPEC = make_spec(
    "fedpa", model=ModelConfig(feature_dim=2), training=TrainingConfig(local_steps=3, batch_size=2, momentum=0.0)
)


def client(**config: Any) -> FedPaClient:
    """A client whose samples are their own features, of dimension 2; it holds the classes 0 and 3 of four."""
    made = FedPaClient(SPEC, Config(hidden_dim=8, **config))
    context = plain_client([[1.0, 0.0], [3.0, 2.0], [0.0, 1.0]], [0, 0, 3]).context
    context.net.features = lambda x: x  # type: ignore[method-assign]
    context.class_counts = np.array([2, 0, 0, 1])
    made.start(context)
    return made


def generator() -> Generator:
    torch.manual_seed(0)
    return Generator(32, 8, 4, 2)


def down(made: FedPaClient, age: int = 1, **changes: Any) -> Downlink:
    """The client's own model, prototypes of classes 0 and 1, counts of classes 1 and 3, and a generator."""
    sent, net = generator(), made.context.net
    arrays = {
        "parameters": flatten_parameters(net),
        "buffers": flatten_buffers(net),
        "prototypes": np.array([[0.0, 0.0], [1.0, 1.0]], np.float32),
        "classes": np.array([0, 1], np.uint16),
        "label_counts": np.array([0, 3, 0, 1], np.uint32),
        "generator_parameters": flatten_parameters(sent),
        "generator_buffers": flatten_buffers(sent),
    }
    return Downlink(**{**arrays, **changes}, age=age)


def nothing() -> Downlink:
    none = np.zeros(0, np.float32)
    ids, counts = np.zeros(0, np.uint16), np.zeros(0, np.uint32)
    return Downlink(none, none, np.zeros((0, 2), np.float32), ids, counts, none, none, 0)


def recorded(made: FedPaClient, monkeypatch: pytest.MonkeyPatch, downlink: Downlink) -> list[tuple[float, float]]:
    """Each step's loss and its cross-entropy, of one local training."""
    seen: list[tuple[float, float]] = []
    original: Callable[[Batch], torch.Tensor] = made.loss

    def loss(batch: Batch) -> torch.Tensor:
        made_loss = original(batch)
        plain = cross_entropy(made.context.net.head(batch.x), batch.y)
        seen.append((made_loss.item(), plain.item()))
        return made_loss

    monkeypatch.setattr(made, "loss", loss)
    made.receive("model", downlink)
    made.local_train("model", 5, None)
    return seen


def test_before_the_first_aggregate_the_loss_is_cross_entropy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = recorded(client(), monkeypatch, nothing())
    assert len(seen) == 3
    assert all(loss == plain for loss, plain in seen)


def test_terms_of_weight_0_neither_compute_nor_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    for function in ("draw", "distances"):
        monkeypatch.setattr(f"models.methods.fedpa.client.{function}", None)
    none = np.zeros(0, np.float32)
    made = client(generated_weight=0.0, prototype_weight=0.0)
    without = down(made, generator_parameters=none, generator_buffers=none)
    assert all(loss == plain for loss, plain in recorded(made, monkeypatch, without))


@pytest.mark.parametrize(("distance", "expected"), [("mse", (1 + 4) / 2), ("l2", 5**0.5)])
def test_the_prototype_term_by_hand(distance: str, expected: float) -> None:
    """Of four samples one is of class 0; class 3 has no prototype. The weight is 4 * 0.5^2 = 1 at age 2."""
    made = client(generated_weight=0.0, prototype_weight=4.0, decay=0.5, distance=distance)
    none = np.zeros(0, np.float32)
    made.receive("model", down(made, age=2, generator_parameters=none, generator_buffers=none))
    batch = Batch(torch.tensor([[1.0, 2.0], [9.0, 9.0], [9.0, 9.0], [8.0, 7.0]]), torch.tensor([0, 3, 3, 3]))
    term = made.loss(batch).item() - cross_entropy(made.context.net.head(batch.x), batch.y).item()
    assert term == pytest.approx(expected / 4, abs=1e-4)


def test_the_generated_term_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features of the generator in evaluation mode with the buffers that came; the weight is 8 * 0.5^2 = 2 at age 2."""
    made = client(generated_weight=8.0, prototype_weight=0.0, decay=0.5)
    noise, labels = torch.randn(3, 32), torch.tensor([1, 3, 3])
    monkeypatch.setattr("models.methods.fedpa.client.draw", lambda *args: (noise, labels))
    buffers = np.full(16, 0.5, np.float32)
    seen = recorded(made, monkeypatch, down(made, age=2, generator_buffers=buffers))
    sent = generator()
    for name in ("running_mean", "running_var"):
        getattr(sent.layers[1], name).fill_(0.5)
    with torch.no_grad():
        fresh = client()
        expected = cross_entropy(fresh.context.net.head(sent.eval()(noise, labels)), labels).item()
    assert seen[0][0] - seen[0][1] == pytest.approx(2 * expected, abs=1e-5)


@pytest.mark.parametrize(
    ("labels", "expected"), [("global", [0.0, 0.75, 0.0, 0.25]), ("uniform", [0.0, 0.5, 0.0, 0.5])]
)
def test_classes_are_drawn_by_the_counts_that_came(
    labels: str, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[float]] = []

    def spy(random: np.random.Generator, distribution_C: np.ndarray, count: int, config: Config) -> Order:
        asked.append(distribution_C.tolist())
        return draw(random, distribution_C, count, config)

    monkeypatch.setattr("models.methods.fedpa.client.draw", spy)
    made = client(labels=labels)
    made.receive("model", down(made))
    made.local_train("model", 5, None)
    assert asked == [expected] * 3


def test_draws_follow_from_the_seed_of_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = []
    for _ in range(2):
        made = client()
        losses.append(recorded(made, monkeypatch, down(made)))
        torch.rand(5)  # what others draw meanwhile does not count
    assert losses[0] == losses[1]


def test_the_generator_is_held_no_longer_than_the_training() -> None:
    made = client()
    made.receive("model", down(made))
    assert made._generator is not None
    made.local_train("model", 5, None)
    assert made._generator is None


def test_the_uplink_by_hand() -> None:
    record = client().uplink("model")
    assert isinstance(record, Uplink)
    assert record.classes.tolist() == [0, 3]
    assert record.counts.tolist() == [2, 0, 0, 1]
    assert record.prototypes.tolist() == [[2.0, 1.0], [0.0, 1.0]]


def test_without_use_no_prototypes_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.prototypes.local_prototypes", None)
    record = client(prototype_weight=0.0, adversarial_weight=0.0).uplink("model")
    assert isinstance(record, Uplink)
    assert record.prototypes.shape == (0, 2)
    assert record.classes.size == 0


@pytest.mark.parametrize(("before", "expected_at"), [("nothing", 0), ("trained", 12), ("frozen", 3)])
def test_the_classifier_is_found_wherever_it_stands(before: str, expected_at: int) -> None:
    made = client()
    head, net = made.context.net.head, made.context.net
    if before != "nothing":
        del net.head
        net.body = nn.Linear(3, 3)
        net.body.weight.requires_grad_(before == "trained")
        net.head = head
    made.start(made.context)
    record = made.uplink("model")
    assert isinstance(record, Uplink)
    cut = record.parameters[record.classifier_at :][: 4 * 3]
    expected = torch.cat([head.weight.flatten(), head.bias]).detach().numpy()
    assert (cut == expected).all()
    assert record.classifier_at == expected_at


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_head_that_trains_no_bias_is_refused(is_frozen: bool) -> None:
    made = client()
    made.context.net.head = head = nn.Linear(2, 4, bias=is_frozen)
    if is_frozen:
        head.bias.requires_grad_(False)
    with pytest.raises(ConfigError, match="expected a net whose head trains a weight and, right behind it, a bias"):
        made.start(made.context)


def test_global_prototypes_predict_the_nearest_known_class() -> None:
    made = client()
    features = torch.tensor([[0.9, 0.9], [-5.0, 0.0]])
    made.receive("model", nothing())
    assert made.predict("global_prototype", features).tolist() == [-1, -1]
    made.receive("model", down(made))
    assert made.predict("global_prototype", features).tolist() == [1, 0]
    assert made.predict("global_head", features).tolist() == made.context.net.head(features).argmax(dim=1).tolist()


@pytest.mark.parametrize(
    ("config", "has_prototypes"),
    [
        ({}, True),
        ({"prototype_weight": 0.0}, True),
        ({"adversarial_weight": 0.0}, True),
        ({"prototype_weight": 0.0, "adversarial_weight": 0.0}, False),
        ({"prototype_weight": 0.0, "generated_weight": 0.0}, False),
    ],
)
def test_where_no_prototypes_travel_no_rule_goes_by_them(config: dict[str, float], has_prototypes: bool) -> None:
    made = client(**config)
    made.receive("model", nothing())
    tested = evaluate(made, made.context.train_x, np.array([0, 0, 3]), ["global_head", "global_prototype"])
    assert ("global_head" in tested, "global_prototype" in tested) == (True, has_prototypes)
