"""Gaussians of classes, what is drawn from them, and heads that are rebalanced on it."""

import math

import numpy as np
import pytest

from models.generative import ClassGaussians, GenerativePrototypes, RebalancingConfig, rebalance

COUNTS = np.array([[3, 0, 9], [5, 4, 0]])
MEANS = np.array(
    [
        [[-0.024, -1.266], [1.867, -0.969], [-0.296, 0.501]],
        [[-0.648, -0.239], [-0.564, -0.133], [-1.171, -0.438]],
    ]
)
VARIANCES = np.array(
    [[[1.914, 0.478], [1.119, 0.459], [1.491, 0.697]], [[0.441, 0.283], [0.515, 0.545], [1.167, 1.012]]]
)
CLASS_MEANS = np.array([[-0.414, -0.624125], [-0.564, -0.133], [-0.296, 0.501]])
SAMPLE_VARIANCES = np.array([[3.071385, 1.315577109375], [1.545, 1.635], [4.473, 2.091]])
"""Of the mixture of each class, with the variance of each client tripled."""


def mixture() -> GenerativePrototypes:
    clients, classes = np.nonzero(COUNTS)
    return GenerativePrototypes(MEANS[clients, classes], VARIANCES[clients, classes], classes, COUNTS[clients, classes])


def test_classes_weigh_by_their_samples_and_so_do_clients_of_a_class() -> None:
    made = mixture()
    assert made.class_weights().tolist() == [8 / 21, 4 / 21, 9 / 21]
    assert made.class_weights("equal").tolist() == [1 / 3] * 3
    assert [made.client_weights(label).tolist() for label in range(3)] == [
        [0.375, 0.0, 0.625, 0.0],
        [0.0, 0.0, 0.0, 1.0],
        [0.0, 1.0, 0.0, 0.0],
    ]


def test_more_samples_of_a_class_than_a_count_holds_are_the_most_that_it_holds() -> None:
    """A client claims as many as it can announce: nothing wraps around to a class without any."""
    most = 2**32 - 1
    made = GenerativePrototypes(MEANS[:, 0], VARIANCES[:, 0], np.array([0, 0]), np.array([most, 1]))
    assert made.class_counts(3).tolist() == [most, 0, 0]


def test_draws_have_the_moments_of_the_mixture() -> None:
    features, labels = mixture().sample(200_000, np.random.default_rng(0), scale=3.0)
    for label in range(3):
        drawn = features[labels == label].astype(np.float64)
        error = np.sqrt(SAMPLE_VARIANCES[label] / len(drawn))
        assert (np.abs(drawn.mean(axis=0) - CLASS_MEANS[label]) < 3 * error).all()
        fourth = ((drawn - drawn.mean(axis=0)) ** 4).mean(axis=0)
        error = np.sqrt((fourth - SAMPLE_VARIANCES[label] ** 2) / len(drawn))
        assert (np.abs(drawn.var(axis=0) - SAMPLE_VARIANCES[label]) < 3 * error).all()
    shares = np.bincount(labels) / len(labels)
    weights = mixture().class_weights()
    assert (np.abs(shares - weights) < 3 * np.sqrt(weights * (1 - weights) / len(labels))).all()


def test_the_moments_of_all_that_is_drawn() -> None:
    features, _ = mixture().sample(200_000, np.random.default_rng(1), 3.0, "equal")
    mean_D, variance_D = mixture().moments(3.0, "equal")
    assert mean_D == pytest.approx(CLASS_MEANS.mean(axis=0))
    assert features.mean(axis=0) == pytest.approx(mean_D, abs=0.02)
    assert features.var(axis=0) == pytest.approx(variance_D, rel=0.02)


def test_a_standardized_mixture_draws_the_same_features_less_a_mean_over_a_deviation() -> None:
    plain, labels = mixture().sample(50, np.random.default_rng(2))
    mean_D = np.array([1.0, -2.0])
    drawn, same_labels = mixture().standardized(mean_D, 4.0).sample(50, np.random.default_rng(2))
    assert (same_labels == labels).all()
    assert drawn == pytest.approx((plain - mean_D) / 4, abs=1e-5)


def test_draws_are_float32_in_random_order_and_repeat() -> None:
    (one, labels), (other, _) = (mixture().sample(50, np.random.default_rng(1)) for _ in range(2))
    assert (one.dtype.name, labels.dtype.name) == ("float32", "int64")
    assert (one == other).all()
    assert labels.tolist() != sorted(labels.tolist())


def test_a_variance_of_zero_gives_draws_at_the_mean() -> None:
    made = GenerativePrototypes(np.ones((1, 3)), np.zeros((1, 3)), np.array([7]), np.array([2]))
    features, labels = made.sample(10, np.random.default_rng(0), scale=3.0)
    assert np.allclose(features, 1, atol=1e-2)
    assert labels.tolist() == [7] * 10


def gaussians(x: list[list[float]], y: list[int]) -> ClassGaussians:
    return ClassGaussians.of_features(np.array(x, np.float32).reshape(-1, 2), np.array(y, np.int64))


def test_variances_are_unbiased_and_a_class_of_one_sample_has_none() -> None:
    made = gaussians([[1.0, 2.0], [3.0, 2.0], [9.0, 9.0], [0.0, 0.0], [0.0, 6.0], [0.0, 0.0]], [3, 3, 2, 1, 1, 1])
    assert (made.classes.tolist(), made.counts.tolist()) == ([1, 3], [3, 2])
    assert made.means_CD.tolist() == [[0.0, 2.0], [2.0, 2.0]]
    assert made.variances_CD.tolist() == [[0.0, 12.0], [2.0, 0.0]]
    assert made.means_CD.dtype == made.variances_CD.dtype == np.float32


@pytest.mark.parametrize(("x", "y"), [([], []), ([[1.0, 2.0]], [0])])
def test_without_two_samples_there_are_none(x: list[list[float]], y: list[int]) -> None:
    made = gaussians(x, y)
    assert [array.shape for array in made] == [(0, 2), (0, 2), (0,), (0,)]


def settings(epochs: int, lr: float, momentum: float, batch_size: int, logit_norm: float = 0.0) -> RebalancingConfig:
    return RebalancingConfig(epochs, lr, momentum, batch_size, logit_norm=logit_norm)


def draws(epoch: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(epoch)
    labels = random.permutation(np.arange(200) % 2)
    return (random.normal(size=(200, 2)) * 0.1 + np.eye(2)[labels]).astype(np.float32), labels


def test_a_one_sided_head_is_put_right() -> None:
    one_sided = np.array([[0.0, 0.0, 5.0], [0.0, 0.0, 0.0]], np.float32)
    head, loss = rebalance(one_sided, draws, settings(20, 1.0, 0.9, 20))
    features, labels = draws(99)
    assert ((features @ head[:, :2].T + head[:, 2]).argmax(axis=1) == labels).mean() > 0.99
    assert loss < 0.1
    assert one_sided[0, 2] == 5


def test_the_rate_falls_along_a_cosine() -> None:
    features, labels = draws(0)
    how = settings(3, 0.1, 0.0, 200)
    came, _ = rebalance(np.zeros((2, 3)), lambda epoch: (features, labels), how)
    head, inputs = np.zeros((2, 3)), np.concatenate([features, np.ones((200, 1))], axis=1)
    for epoch in range(3):
        logits = inputs @ head.T
        shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        rate = 0.1 * (1 + math.cos(math.pi * epoch / 3)) / 2
        head -= rate * (shares - np.eye(2)[labels]).T @ inputs / 200
    assert np.allclose(came, head, atol=1e-6)


def test_no_epoch_changes_nothing_and_has_no_loss() -> None:
    head, loss = rebalance(np.ones((2, 3), np.float32), draws, settings(0, 0.1, 0.9, 10))
    assert head.tolist() == np.ones((2, 3)).tolist()
    assert math.isnan(loss)


def test_a_logit_norm_bounds_the_logits() -> None:
    head = np.array([[100.0, 0.0, 0.0], [0.0, 100.0, 0.0]], np.float32)
    _, loss = rebalance(head, draws, settings(1, 1e-9, 0.0, 200, logit_norm=1.0))
    assert loss > math.log(1 + math.exp(-math.sqrt(2)))
