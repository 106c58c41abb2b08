import math

import pytest
import torch

from models.methods.fedpa.losses import Classifiers, class_distances, distances, diversity, fidelity

FEATURES = torch.tensor(
    [[1.317, 0.493, 0.161], [-0.932, 2.872, 0.88], [-1.139, -0.78, 0.087], [-1.555, 0.169, -0.459]],
    dtype=torch.float64,
)
NOISE = torch.tensor([[1.226, 0.962], [-2.711, 0.042], [-1.617, 1.11], [0.168, 0.548]], dtype=torch.float64)
LABELS = torch.tensor([0, 0, 1, 0])
PROTOTYPES = torch.tensor([[-1.065, 1.828, 2.02], [-1.065, 0.373, -0.673]], dtype=torch.float64)


def test_the_adversarial_term_as_printed() -> None:
    loss = distances(FEATURES, PROTOTYPES[LABELS], "l2").mean()
    assert loss.item() == pytest.approx(2.315167235878847, abs=1e-6)


def test_the_diversity_term_as_printed() -> None:
    loss = diversity(FEATURES, NOISE, LABELS, form="literal", pairs="same")
    assert loss.item() == pytest.approx(0.03919556082922202, abs=1e-6)


def test_the_mean_squared_distance_by_hand() -> None:
    apart = distances(torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[0.0, 0.0], [3.0, 1.0]]), "mse")
    assert apart.tolist() == [2.5, 5.0]


def test_diversity_per_dimension_by_hand() -> None:
    """Two of four ordered pairs differ: features by a mean of 2, noises by a mean square of 5; both count once each."""
    features, noise = torch.tensor([[0.0, 0.0], [1.0, 3.0]]), torch.tensor([[0.0, 0.0], [1.0, 3.0]])
    loss = diversity(features, noise, torch.tensor([1, 1]))
    assert loss.item() == pytest.approx(math.exp(-2 * 2 * 5 / 4), abs=1e-7)


@pytest.mark.parametrize("form", ["per_dim", "literal"])
def test_all_pairs_are_those_of_one_class_and_those_of_two(form: str) -> None:
    same, different, both = (
        diversity(FEATURES, NOISE, LABELS, form, pairs).item()  # type: ignore[arg-type]
        for pairs in ("same", "different", "all")
    )
    assert both == pytest.approx(same * different)
    assert same != pytest.approx(different)


@pytest.mark.parametrize("form", ["per_dim", "literal"])
def test_equal_features_have_the_largest_loss_and_a_finite_gradient(form: str) -> None:
    features = torch.ones(3, 2, requires_grad=True)
    loss = diversity(features, torch.zeros(3, 2), torch.tensor([0, 0, 0]), form)  # type: ignore[arg-type]
    loss.backward()
    assert loss.item() == 1.0
    assert features.grad is not None
    assert features.grad.isfinite().all()


@pytest.mark.parametrize("distance", ["l2", "mse"])
def test_a_feature_on_its_target_has_a_finite_gradient(distance: str) -> None:
    features = torch.ones(2, 3, requires_grad=True)
    distances(features, torch.ones(2, 3), distance).sum().backward()  # type: ignore[arg-type]
    assert features.grad is not None
    assert features.grad.tolist() == [[0.0] * 3] * 2


def classifiers() -> Classifiers:
    """Two clients, two classes, one dimension; the first has three quarters of class 0 and nothing of class 1."""
    weights = torch.tensor([[[0.0], [0.0]], [[0.0], [1.0]]])
    return Classifiers(weights, torch.zeros(2, 2), torch.tensor([[0.75, 0.0], [0.25, 1.0]]))


def test_fidelity_by_hand() -> None:
    """Client 1 is undecided; client 2 has logits 0 and 2 for the feature 2 of class 0, 0 and -1 for -1 of class 1."""
    features, labels = torch.tensor([[2.0], [-1.0]]), torch.tensor([0, 1])
    first = 0.75 * math.log(2) + 0.25 * math.log(1 + math.exp(2))
    second = math.log(1 + math.exp(1))
    assert fidelity(features, labels, classifiers()).item() == pytest.approx((first + second) / 2, abs=1e-6)


def test_fidelity_as_printed_is_divided_by_the_clients() -> None:
    features, labels = torch.tensor([[2.0], [-1.0]]), torch.tensor([0, 1])
    summed, literal = (fidelity(features, labels, classifiers(), literal=flag).item() for flag in (False, True))
    assert literal == pytest.approx(summed / 2)


def test_class_distances_by_hand() -> None:
    features = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    intra, inter = class_distances(features, torch.tensor([0, 0, 1]))
    assert intra == pytest.approx(5.0)
    assert inter == pytest.approx((1 + math.sqrt(18)) / 2)


def test_one_class_has_no_distance_from_another() -> None:
    intra, inter = class_distances(torch.tensor([[0.0], [2.0]]), torch.tensor([3, 3]))
    assert intra == 2.0
    assert math.isnan(inter)
