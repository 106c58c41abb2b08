"""Mixtures on a client: expectation-maximisation beside scikit-learn's, special cases, and sampling."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.mixture import GaussianMixture

from models.methods.gfpl import Config, Mixture, most_components
from models.methods.gfpl.mixtures import Fit, draw, fit, fit_classes, improved

FLOOR = 1e-6


def clumps(seed: int = 0, num_each: int = 25, num_dims: int = 6) -> torch.Tensor:
    """Features about four centres that are not far from each other."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(4, num_dims)) * 2
    return torch.from_numpy(np.repeat(centres, num_each, axis=0) + random.normal(size=(4 * num_each, num_dims)))


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def likelihood(features: torch.Tensor, made: Fit) -> float:
    """The mean log-likelihood, as scikit-learn computes it."""
    judge = GaussianMixture(len(made.weights), covariance_type="diag")
    judge.weights_, judge.means_, judge.covariances_ = (array.numpy() for array in made)
    judge.precisions_cholesky_ = 1 / np.sqrt(judge.covariances_)
    return float(judge.score(features.numpy()))


@pytest.mark.parametrize("seed", range(5))
def test_it_arrives_where_scikit_learn_does_from_the_same_start(seed: int) -> None:
    features = clumps(seed)
    start = Fit(torch.full((4,), 0.25).double(), features[[0, 30, 60, 90]], torch.ones(4, 6).double() * 5)
    theirs = GaussianMixture(
        4,
        covariance_type="diag",
        reg_covar=0,
        weights_init=start.weights.numpy(),
        means_init=start.means.numpy(),
        precisions_init=1 / start.variances.numpy(),
    ).fit(features.numpy())
    made = improved(features, start, FLOOR)
    for ours, other in zip(made, (theirs.weights_, theirs.means_, theirs.covariances_), strict=True):
        np.testing.assert_allclose(ours, other, atol=1e-7)


def test_it_fits_about_as_well_as_scikit_learn() -> None:
    gaps = []
    for seed in range(10):
        features = clumps(seed)
        theirs = GaussianMixture(4, covariance_type="diag", random_state=seed).fit(features.numpy())
        gaps.append(likelihood(features, fit(features, 4, FLOOR, random(seed))) - theirs.score(features.numpy()))
    assert np.median(gaps) > -0.05
    assert np.mean(gaps) > -0.3


def test_one_component_has_mean_and_variance_of_the_class() -> None:
    features = clumps()
    weights, means, variances = fit(features, 1, FLOOR, random())
    assert weights.tolist() == [1.0]
    np.testing.assert_allclose(means[0], features.mean(0), atol=1e-9)
    np.testing.assert_allclose(variances[0], features.var(0, correction=0), atol=1e-9)


def test_a_mixture_has_the_moments_of_its_class() -> None:
    """After a maximisation mean and variance of the whole are those of the samples."""
    features = clumps()
    weights, means, variances = fit(features, 4, FLOOR, random())
    np.testing.assert_allclose(weights @ means, features.mean(0), atol=1e-8)
    np.testing.assert_allclose(weights @ (variances + means**2) - (weights @ means) ** 2, features.var(0, correction=0))


def test_the_same_seed_gives_the_same_mixture() -> None:
    one, two = (fit(clumps(), 4, FLOOR, random(3)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize(
    "features",
    [
        torch.zeros(8, 3),
        torch.ones(8, 3) * 7,
        torch.tensor([[0.0, 1.0]] * 7 + [[1.0, 1.0]]),
        torch.tensor([[0.0, 0.0]] * 4 + [[1e6, 1e-6]] * 4),
        torch.cat([torch.zeros(20, 3), torch.full((1, 3), 1e18)]),
    ],
)
def test_features_without_any_spread_have_the_floor_for_a_variance(features: torch.Tensor) -> None:
    made = fit(features.double(), 4, FLOOR, random())
    assert all(torch.isfinite(array).all() for array in made)
    assert made.variances.min() == FLOOR
    assert made.weights.sum().item() == pytest.approx(1)
    assert (made.weights > 0).all()


def test_means_of_features_after_relu_are_not_negative() -> None:
    made = fit(clumps().clamp_min(0), 4, FLOOR, random())
    assert (made.means >= 0).all()


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (1, 1), (2, 1), (3, 1), (4, 2), (7, 3), (8, 4), (900, 4)])
def test_a_component_stands_for_two_samples_at_least(count: int, expected: int) -> None:
    assert most_components(count, Config()) == expected


def fitted(**config: Any) -> dict[int, Mixture]:
    """Classes 0 (100 samples), 2 (two) and 5 (a single one)."""
    features = torch.cat([clumps(), torch.zeros(2, 6), torch.ones(1, 6)])
    features[100:102, 0] = torch.tensor([1.0, 3.0])
    labels = torch.tensor([0] * 100 + [2, 2, 5])
    return fit_classes(features, labels, Config(**config), seed=1)


def test_each_class_has_its_own_mixture() -> None:
    made = fitted()
    assert {label: len(mixture.weights) for label, mixture in made.items()} == {0: 4, 2: 1, 5: 1}
    assert made[2].means.tolist() == [[2.0, 0, 0, 0, 0, 0]]
    assert made[2].deviations[0] == pytest.approx([1.0] + [1e-3] * 5)
    assert all(array.dtype == np.float32 for mixture in made.values() for array in mixture)


def test_a_single_sample_has_the_floor_or_the_variance_of_the_other_classes() -> None:
    assert fitted()[5].deviations[0] == pytest.approx([1e-3] * 6)
    offsets = clumps() - clumps().mean(0)
    squares = offsets.square().sum(0) + torch.tensor([2.0, 0, 0, 0, 0, 0])
    pooled = fitted(single_sample="pooled")
    assert pooled[5].deviations[0] == pytest.approx((squares / 102).sqrt().numpy(), rel=1e-5)
    assert pooled[5].means.tolist() == [[1.0] * 6]
    assert pooled[2].deviations[0] == pytest.approx([1.0] + [1e-3] * 5)


def test_single_samples_alone_have_the_floor() -> None:
    made = fit_classes(torch.eye(3), torch.tensor([0, 1, 2]), Config(single_sample="pooled"), seed=1)
    assert all(mixture.deviations[0] == pytest.approx([1e-3] * 3) for mixture in made.values())


def test_samples_have_the_moments_of_their_mixture() -> None:
    mixture = Mixture(*(np.array(a, np.float32) for a in ([0.25, 0.75], [[0.0, 8.0], [4.0, 0.0]], [[1, 2], [3, 0.5]])))
    samples, labels = draw({3: mixture, 7: mixture}, 20_000, random())
    assert samples.dtype == np.float32
    assert np.bincount(labels).tolist() == [0, 0, 0, 20_000, 0, 0, 0, 20_000]
    assert samples[labels == 7].mean(0) == pytest.approx([3.0, 2.0], abs=0.1)
    assert samples[labels == 7].var(0) == pytest.approx([7.0 + 3.0, 1.1875 + 12.0], rel=0.03)


def test_the_shares_of_components_need_not_add_up_to_one_in_every_digit() -> None:
    mixture = Mixture(np.array([0.5, 0.508], np.float32), np.zeros((2, 1), np.float32), np.ones((2, 1), np.float32))
    samples, _ = draw({0: mixture}, 5, random())
    assert samples.shape == (5, 1)
