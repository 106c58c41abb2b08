"""The client half of GFPL: its losses, retraining, mixtures and accuracy rules, worked out by hand."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from models.methods.api import ClientContext
from models.methods.gfpl import Config, Mixtures, Schedule, Uplink, flattened
from models.methods.gfpl.client import GfplClient, dot_regression
from models.methods.gfpl.nets import with_projection
from models.nets import net_arrays
from models.nets.net import Net
from models.spec import ModelConfig, TrainingConfig
from models.training import Batch
from tests.models.methods.test_gfpl import ONE, TWO, mixture
from tests.models.small_run import make_spec


def test_dot_regression_by_known_numbers() -> None:
    projected = torch.tensor(
        [
            [-0.0017804604248165188, 0.8012071911674334, -0.21098456034075744, -0.5599548036047951],
            [0.10509143480448185, 0.31708622570317796, 0.300778934095586, 0.8932771958380957],
        ],
        dtype=torch.float64,
    )
    columns = torch.tensor(
        [
            [0.32649634655353027, -0.27813005418343884, -0.119447646741274],
            [-0.112477210295953, 0.05120975659796425, -0.028439915890779523],
            [0.27181992488188644, -0.7850596630752135, 0.7868376729782335],
            [-0.8982554988912914, -0.5510921512790098, 0.6048222112772446],
        ],
        dtype=torch.float64,
    )
    made = dot_regression(projected, columns, torch.tensor([0, 2]))
    assert made.item() == pytest.approx(0.11898889213300975, abs=1e-9)


class Scaled(Net):
    """Features are samples after batch norm and a factor that is trained."""

    def __init__(self) -> None:
        super().__init__(2, 4)
        self.norm = torch.nn.BatchNorm1d(2)
        self.factor = torch.nn.Parameter(torch.ones(2))

    def features(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.norm(x) * self.factor
        return made


FRAME = np.array([[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, -1.0]])
"""Not equiangular, but easy to reckon with."""


TRAINING = TrainingConfig(local_epochs=3, batch_size=4, lr=0.1)


def client(training: TrainingConfig = TRAINING, **config: Any) -> GfplClient:
    """A client of two dimensions that holds classes 0 and 3; its projection leaves features as they are."""
    settings = Config(**{"projection_dim": 2, **config})
    spec = make_spec("gfpl", model=ModelConfig(feature_dim=2), training=training)
    torch.manual_seed(0)
    net = with_projection(Scaled(), spec, settings)
    with torch.no_grad():
        if settings.dual_classifier:
            projection = net.get_submodule("projection")
            assert isinstance(projection, torch.nn.Linear)
            projection.weight.copy_(torch.eye(2))
            projection.bias.zero_()
        net.head.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
        net.head.bias.zero_()
    made = GfplClient(spec, settings)
    x, y = torch.tensor([[1.0, 0.0], [3.0, 2.0], [0.0, 1.0]]), torch.tensor([0, 0, 3])
    constants = {"etf": {"vectors": FRAME}} if settings.dual_classifier else {}
    made.start(ClientContext("a", net, torch.device("cpu"), x, y, np.array([2, 0, 0, 1]), constants))
    return made


def test_the_loss_by_hand() -> None:
    """Features (3, 4) and (0, -2): cosines to the vectors of classes 0 and 1 are 0.6 and -1."""
    made = client(regularizer_weight=3.0)
    made.context.net.eval()
    x = torch.tensor([[3.0, 4.0], [0.0, -2.0]]) * (1 + 1e-5) ** 0.5
    logits = torch.tensor([[0.0, 3.0, 4.0, 0.0], [0.0, 0.0, -2.0, 0.0]])
    labels = torch.tensor([0, 1])
    regression = (0.4**2 + 2.0**2) / 2 / 2
    expected = 3 * regression + torch.nn.functional.cross_entropy(logits, labels).item()
    assert made.loss(Batch(x, labels)).item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("config", [{"regularizer_weight": 0.0}, {"dual_classifier": False}])
def test_without_weight_or_frame_the_loss_is_cross_entropy_alone(config: dict[str, Any]) -> None:
    made = client(**config)
    made.context.net.eval()
    batch = Batch(torch.tensor([[3.0, 4.0]]), torch.tensor([2]))
    logits = made.context.net(batch.x)
    assert made.loss(batch).item() == torch.nn.functional.cross_entropy(logits, batch.y).item()


def test_a_projection_of_zeros_has_a_loss_and_a_gradient() -> None:
    made = client()
    made.context.net.eval()
    loss = made.loss(Batch(torch.zeros(1, 2), torch.tensor([0])))
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(each.grad).all() for each in made.context.net.parameters() if each.grad is not None)


DOWN = Mixtures(**flattened({1: TWO, 2: ONE}, 2))


@pytest.mark.parametrize("local_steps", [0, 3])
def test_retraining_leaves_the_extractor_alone(local_steps: int) -> None:
    made = client(replace(TRAINING, local_steps=local_steps))
    made.receive("fusion", DOWN)
    before = net_arrays(made.context.net)
    steps: list[tuple[int, int]] = []
    loss = made.local_train("fusion", 7, lambda *step: steps.append(step))
    after = net_arrays(made.context.net)
    changed = {name for name in before if (before[name] != after[name]).any()}
    assert changed == {"head.weight", "head.bias", "projection.weight", "projection.bias"}
    assert loss > 0
    assert steps[-1] == (8, 8), "one pass over 16 samples of two classes, four at a time"


def test_retraining_is_keyed_by_its_seed() -> None:
    heads = []
    for seed in (7, 7, 8):
        made = client()
        made.receive("fusion", DOWN)
        made.local_train("fusion", seed, None)
        heads.append(net_arrays(made.context.net)["head.weight"].tolist())
    assert heads[0] == heads[1] != heads[2]


def test_without_mixtures_nothing_is_retrained() -> None:
    made = client()
    made.receive("fusion", DOWN)
    made.receive("fusion", Mixtures(**flattened({}, 2)))
    before = net_arrays(made.context.net)
    assert made.local_train("fusion", 7, None) == 0.0
    assert all((before[name] == array).all() for name, array in net_arrays(made.context.net).items())


@pytest.mark.parametrize(
    ("mean", "setting", "least_is_zero"),
    [(0.0, "auto", True), (-0.1, "auto", False), (-0.1, True, True), (0.0, False, False)],
)
def test_negative_samples_are_zero_where_features_are_not_negative(
    mean: float, setting: Any, least_is_zero: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, seen = client(clamp_samples=setting), list[torch.Tensor]()

    def note(self: GfplClient, batch: Batch) -> torch.Tensor:
        seen.append(batch.x)
        return self.context.net.head(batch.x).sum()  # type: ignore[no-any-return]

    monkeypatch.setattr(GfplClient, "loss", note)
    made.receive("fusion", Mixtures(**flattened({0: mixture([1.0], [[mean, 0.5]], [[1.0, 1.0]]), 1: ONE}, 2)))
    made.local_train("fusion", 7, None)
    assert (min(x.min().item() for x in seen) == 0) is least_is_zero


def test_the_uplink_by_hand() -> None:
    """Batch norm in evaluation mode divides by the root of 1 + 1e-5."""
    made = client()
    made.receive("mixtures", Schedule(True))
    record = made.uplink("mixtures")
    assert isinstance(record, Uplink)
    assert record.classes.tolist() == [0, 3]
    assert record.counts.tolist() == [2, 1]
    assert record.num_components.tolist() == [1, 1]
    assert record.weights.tolist() == [1.0, 1.0]
    assert record.means == pytest.approx(np.array([[2.0, 1.0], [0.0, 1.0]]), abs=1e-4)
    assert record.deviations == pytest.approx(np.array([[1.0, 1.0], [1e-3, 1e-3]]), abs=1e-4)
    made.receive("mixtures", Schedule(False))
    empty = made.uplink("mixtures")
    assert isinstance(empty, Uplink)
    assert empty.to_payload().sizes == (0, 0)


FEATURES = torch.tensor([[2.0, 1.0], [0.1, -3.0], [-5.0, -0.1]])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("etf", [0, 3, 2]),
        ("head_etf", [1, 3, 2]),
        ("own_head", [0, 0, 0]),
        ("own_etf", [0, 3, 3]),
        ("own_head_etf", [0, 3, 3]),
    ],
)
def test_rules_by_hand(rule: str, expected: list[int]) -> None:
    """Logits of (2, 1) are 0, 2, 1, 0, and its cosines 0.89, 0.45, -0.89, -0.45; classes 0 and 3 are the client's."""
    assert client().predict(rule, FEATURES).tolist() == expected


@pytest.mark.parametrize("rule", ["head", "etf", "head_etf", "own_head", "own_etf", "own_head_etf"])
def test_no_rule_predicts_a_class_that_is_yet_to_come(rule: str) -> None:
    """The best of all is class 3 for (0.1, -3) by each rule of the fixed classifier, and 1 by the head for (2, 1)."""
    made = client()
    made.context.num_seen = 1
    predict = made.predict_by_head if rule == "head" else partial(made.predict, rule)
    assert predict(FEATURES).tolist() == [0, 0, 0]


def test_what_cannot_say_predicts_no_class() -> None:
    made = client(dual_classifier=False)
    assert made.predict("own_head", FEATURES).tolist() == [0, 0, 0]
    made.context.class_counts[:] = 0
    assert made.predict("own_head", FEATURES).tolist() == [-1, -1, -1]


def test_without_the_fixed_classifier_there_is_no_rule_that_asks_it() -> None:
    rules = ["head", "etf", "head_etf", "own_head", "own_etf"]
    assert [rule for rule in rules if client().has_rule(rule)] == rules
    assert [rule for rule in rules if client(dual_classifier=False).has_rule(rule)] == ["head", "own_head"]


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="no accuracy rule 'oracle'"):
        client().predict("oracle", FEATURES)
