import numpy as np
import pytest
import torch

from models.nets.net import Net
from models.prototypes import ClassSums, WeightedMean, local_prototypes, nearest_class


class Plain(Net):
    """Samples are their own features."""

    def features(self, x: torch.Tensor) -> torch.Tensor:
        assert not self.training
        return x


def test_a_weighted_mean_by_hand() -> None:
    mean = WeightedMean()
    mean.add(np.array([0.0, 1.0]), 3)
    mean.add(np.array([4.0, 5.0]), 1)
    assert mean.mean().tolist() == [1.0, 2.0]
    assert mean.weight == 4


def test_a_mean_is_summed_in_float64() -> None:
    mean = WeightedMean()
    for number in (1e8, 1.0, -1e8):
        mean.add(np.array([number], np.float32), 1)
    assert mean.mean()[0] == pytest.approx(1 / 3, abs=1e-12)


def test_a_shape_that_differs_is_refused() -> None:
    mean = WeightedMean()
    mean.add(np.zeros(2), 1)
    with pytest.raises(ValueError, match=r"expected shape \(2,\), got \(3,\)"):
        mean.add(np.zeros(3), 1)


def test_class_means_by_hand_leave_absent_classes_out() -> None:
    sums = ClassSums(num_classes=4, feature_dim=2)
    sums.add(np.array([[1.0, 0.0], [2.0, 2.0]]), np.array([0, 2]), np.array([1, 3]))
    sums.add(np.array([[6.0, 2.0]]), np.array([2]), np.array([1]))
    sums.add(np.array([[9.0, 9.0]]), np.array([3]), np.array([0]))
    sums.add(np.zeros((0, 2)), np.zeros(0, int), np.zeros(0, int))
    means, classes = sums.means()
    assert classes.tolist() == [0, 2]
    assert means.tolist() == [[1.0, 0.0], [3.0, 2.0]]


def test_no_sums_have_no_means() -> None:
    means, classes = ClassSums(3, 2).means()
    assert means.shape == (0, 2)
    assert classes.shape == (0,)


def test_local_prototypes_by_hand() -> None:
    net = Plain(2, 4).train()
    x = torch.tensor([[0.0, 2.0], [1.0, 1.0], [2.0, 4.0]])
    made = local_prototypes(net, x, torch.tensor([3, 1, 3]), 4)
    assert made.classes.tolist() == [1, 3]
    assert made.counts.tolist() == [1, 2]
    assert made.prototypes_CD.tolist() == [[1.0, 1.0], [1.0, 3.0]]
    assert made.prototypes_CD.dtype == np.float32
    assert net.training


def test_local_prototypes_of_many_batches_are_the_mean() -> None:
    x, y = torch.rand(1000, 3), torch.arange(1000) % 2
    made = local_prototypes(Plain(3, 2), x, y, 2)
    assert np.allclose(made.prototypes_CD, [x[y == label].mean(0).numpy() for label in (0, 1)], atol=1e-6)


def test_no_sample_has_no_prototype() -> None:
    made = local_prototypes(Plain(2, 4), torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), 4)
    assert made.prototypes_CD.shape == (0, 2)
    assert made.classes.tolist() == made.counts.tolist() == []


def test_the_nearest_class_by_hand() -> None:
    prototypes = torch.tensor([[0.0, 0.0], [4.0, 0.0]])
    features = torch.tensor([[1.0, 0.0], [3.0, 1.0], [0.0, 0.0]])
    assert nearest_class(features, prototypes, torch.tensor([2, 7])).tolist() == [2, 7, 2]


def test_without_prototypes_nothing_is_predicted() -> None:
    assert nearest_class(torch.rand(3, 2), torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64)).tolist() == [-1] * 3


def test_chunks_do_not_change_the_nearest_class(monkeypatch: pytest.MonkeyPatch) -> None:
    features, prototypes, classes = torch.rand(50, 3), torch.rand(4, 3), torch.arange(4)
    whole = nearest_class(features, prototypes, classes)
    monkeypatch.setattr("models.prototypes._MAX_ENTRIES", 1)
    assert torch.equal(nearest_class(features, prototypes, classes), whole)
