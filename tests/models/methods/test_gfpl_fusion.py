"""Fusion against a paper's numbers, and against Algorithm 1 as it is printed."""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np
import pytest

from models.methods.gfpl.fusion import Components, bhattacharyya, fuse

Linkage = Literal["leader", "complete"]
LINKAGES: tuple[Linkage, ...] = ("leader", "complete")


class Pair(NamedTuple):
    means: tuple[list[float], list[float]]
    variances: tuple[list[float], list[float]]
    distance: float


PAIRS = (
    Pair(([0.346], [0.33]), ([1.911], [1.908]), 1.691258435398712e-05),
    Pair(
        ([0.905, 0.446, -0.537], [0.028, 0.547, -0.736]),
        ([0.937, 1.189, 0.25], [1.619, 0.746, 1.016]),
        0.23025202997152605,
    ),
    Pair(
        (
            [0.04, -0.292, -0.782, -0.257, 0.008, -0.276, 1.294, 1.007],
            [-1.112, -0.378, 2.043, 0.647, 0.663, -0.514, -1.648, 0.167],
        ),
        (
            [1.931, 1.505, 1.174, 0.698, 0.489, 1.946, 1.129, 0.409],
            [1.354, 1.735, 1.267, 0.668, 1.712, 1.117, 1.12, 1.555],
        ),
        2.3987664968020157,
    ),
)

SIX = Components(
    np.array([21.0, 6.3, 8.4, 2.5, 35.0, 10.5]),
    np.array(
        [
            [-0.506, 0.594, 0.891, 0.321],
            [-1.072, 0.914, -0.02, -1.249],
            [-1.107, 0.2, -0.467, 0.236],
            [-0.298, -0.811, 0.752, 0.253],
            [-1.338, 2.325, 0.582, -4.893],
            [-0.003, 1.338, 1.404, 2.628],
        ]
    ),
    np.array(
        [
            [0.545, 1.644, 0.544, 0.347],
            [0.693, 0.213, 1.362, 1.496],
            [1.649, 1.935, 0.471, 1.068],
            [1.412, 1.854, 1.688, 1.794],
            [1.696, 0.313, 1.686, 0.496],
            [0.913, 0.21, 0.672, 0.958],
        ]
    ),
)
BY_WEIGHT = [4, 0, 5, 2, 1, 3]


def random_components(seed: int, count: int = 30, num_dims: int = 40) -> Components:
    """Components so near to each other that some distances are below 1, beyond the first block of dimensions too."""
    draw = np.random.default_rng(seed)
    means = draw.normal(size=(count, num_dims)) * 0.2 + draw.integers(0, 2, (count, 1))
    return Components(draw.integers(1, 6, count).astype(float), means, np.exp(draw.normal(size=means.shape) * 0.1))


def pooled(components: Components) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the mixture of all components."""
    shares = components.weights / components.weights.sum()
    mean = shares @ components.means
    return mean, shares @ (components.variances + components.means**2) - mean**2


@pytest.mark.parametrize("pair", PAIRS)
def test_the_distance_by_known_numbers(pair: Pair) -> None:
    (mean, other), (variance, others) = np.array(pair.means), np.array(pair.variances)
    forth = bhattacharyya(mean, variance, other[None], others[None])
    back = bhattacharyya(other, others, mean[None], variance[None])
    assert forth == pytest.approx([pair.distance], abs=1e-9)
    assert back == pytest.approx(forth, abs=1e-15)


def test_the_distance_is_a_determinants_one() -> None:
    """Eq. (8) as printed, with whole matrices."""
    one, two = np.diag([0.5, 2.0, 1.5]), np.diag([1.0, 0.3, 4.0])
    gap, mean = np.array([1.0, -2.0, 0.5]), (one + two) / 2
    det = np.linalg.det
    printed = gap @ np.linalg.inv(mean) @ gap / 8 + np.log(det(mean) / np.sqrt(det(one) * det(two))) / 2
    made = bhattacharyya(np.zeros(3), one.diagonal(), gap[None], two.diagonal()[None])
    assert made == pytest.approx([printed], abs=1e-12)


def test_no_distance_is_negative() -> None:
    """The logarithm of what should be 1 may be rounded below 0."""
    variances = 1 + np.random.default_rng(0).random((1000, 1)) * 1e-8
    made = bhattacharyya(np.zeros(1), np.ones(1), np.zeros((1000, 1)), variances)
    assert (made >= 0).all()


def test_nothing_is_nearer_than_zero() -> None:
    twice = Components(*(np.concatenate([array, array]) for array in SIX))
    fused = fuse(twice, 0.0, "leader")
    assert len(fused.weights) == 12


def test_a_threshold_of_zero_lists_the_components_by_weight() -> None:
    fused = fuse(SIX, 0.0, "leader")
    for made, given in zip(fused, SIX, strict=True):
        np.testing.assert_allclose(made, given[BY_WEIGHT], rtol=0, atol=1e-9)


def assert_unchanged(fused: Components, given: Mapping[int, int]) -> None:
    """Check that rows of what was fused are rows of the six as they were given."""
    for row, before in given.items():
        assert fused.means[row] == pytest.approx(SIX.means[before], abs=1e-9)
        assert fused.variances[row] == pytest.approx(SIX.variances[before], abs=1e-9)


def test_the_seed_takes_in_one_that_is_near() -> None:
    fused = fuse(SIX, 0.6, "leader")
    assert fused.weights == pytest.approx([35.0, 23.5, 10.5, 8.4, 6.3], abs=1e-9)
    assert_unchanged(fused, {0: 4, 2: 5, 3: 2, 4: 1})
    assert fused.means[1] == pytest.approx(
        [-0.48387234042553184, 0.44453191489361704, 0.8762127659574467, 0.3137659574468085], abs=1e-9
    )
    assert fused.variances[1] == pytest.approx(
        [0.6413469624264374, 1.854002376641014, 0.6675388909008602, 0.5013757537347215], abs=1e-9
    )


def test_the_seed_takes_in_three_that_are_near() -> None:
    fused = fuse(SIX, 1.0, "leader")
    assert fused.weights == pytest.approx([35.0, 38.2, 10.5], abs=1e-9)
    assert_unchanged(fused, {0: 4, 2: 5})
    assert fused.means[1] == pytest.approx(
        [-0.717890052356021, 0.4681858638743456, 0.43304188481675393, 0.03893193717277486], abs=1e-9
    )
    assert fused.variances[1] == pytest.approx(
        [0.9591076109481649, 1.6501149104807986, 1.0716561029577039, 1.1185821105506977], abs=1e-9
    )


@pytest.mark.parametrize("linkage", LINKAGES)
def test_fusing_everything_gives_the_pooled_moments(linkage: Linkage) -> None:
    fused = fuse(SIX, 1e9, linkage)
    assert fused.weights == pytest.approx([83.7], abs=1e-9)
    assert fused.means[0] == pytest.approx(
        [-0.8875137395459979, 1.3537479091995221, 0.6171350059737157, -1.6986117084826757], abs=1e-9
    )
    assert fused.variances[0] == pytest.approx(
        [1.4576005007072823, 1.662733268588818, 1.3720695528606033, 8.83125928172671], abs=1e-9
    )
    mean, variance = pooled(SIX)
    assert fused.means[0] == pytest.approx(mean, abs=1e-12)
    assert fused.variances[0] == pytest.approx(variance, abs=1e-12)


def printed_algorithm(components: Components, threshold: float) -> list[list[int]]:
    """Algorithm 1, lines 1 to 11: whatever is near to all members joins them, until nothing is added."""
    return _grown(components, threshold, lambda is_near, members, free: [p for p in free if is_near(p, members)])


def one_at_a_time(components: Components, threshold: float) -> list[list[int]]:
    """The same, but only the first that is near to all members joins them at a time."""
    return _grown(components, threshold, lambda is_near, members, free: [p for p in free if is_near(p, members)][:1])


def _grown(
    components: Components,
    threshold: float,
    grow: Callable[[Callable[[int, list[int]], bool], list[int], list[int]], list[int]],
) -> list[list[int]]:
    _, means, variances = components

    def is_near(one: int, members: list[int]) -> bool:
        return all(
            bhattacharyya(means[one], variances[one], means[[other]], variances[[other]])[0] < threshold
            for other in members
        )

    free = sorted(range(len(means)), key=lambda row: (-components.weights[row], row))
    clusters = []
    while free:
        members = [free.pop(0)]
        while added := grow(is_near, members, free):
            members += added
            free = [row for row in free if row not in added]
        clusters.append(members)
    return clusters


@pytest.mark.parametrize(("linkage", "reference"), [("leader", printed_algorithm), ("complete", one_at_a_time)])
@pytest.mark.parametrize("threshold", [0.35, 0.5, 1.0])
def test_clusters_are_those_of_the_printed_algorithm(
    linkage: Linkage, reference: Callable[[Components, float], list[list[int]]], threshold: float
) -> None:
    num_merged = 0
    for seed in range(5):
        components = random_components(seed)
        clusters = reference(components, threshold)
        fused = fuse(components, threshold, linkage)
        num_merged += len(components.weights) - len(clusters)
        assert len(fused.weights) == len(clusters)
        for made, rows in zip(zip(*fused, strict=True), clusters, strict=True):
            mean, variance = pooled(Components(*(array[rows] for array in components)))
            assert made[0] == components.weights[rows].sum()
            np.testing.assert_allclose(made[1], mean, rtol=0, atol=1e-12)
            np.testing.assert_allclose(made[2], variance, rtol=0, atol=1e-12)
    assert num_merged > 0


def test_members_need_only_be_near_to_the_seed_unless_linkage_is_complete() -> None:
    """Three in a row: the ends are near to the middle, which is the heaviest, but not to each other."""
    row = Components(np.array([1.0, 3.0, 2.0]), np.array([[-2.0], [0.0], [2.0]]), np.ones((3, 1)))
    assert fuse(row, 1.0, "leader").weights.tolist() == [6.0]
    assert fuse(row, 1.0, "complete").weights.tolist() == [5.0, 1.0]


def test_ties_go_to_the_component_that_stands_first() -> None:
    equal = Components(np.ones(3), np.array([[0.0], [2.0], [4.0]]), np.ones((3, 1)))
    assert fuse(equal, 1.0, "leader").means.tolist() == [[1.0], [4.0]]


def test_components_of_a_floor_and_of_any_size_stay_finite() -> None:
    """Standard deviations and means from next to nothing to the largest single."""
    draw = np.random.default_rng(1)
    sizes = 10.0 ** draw.uniform(-20, 38, (40, 8))
    components = Components(draw.random(40) + 1e-9, sizes * draw.choice([-1, 1], sizes.shape), sizes[::-1] ** 2)
    for threshold in (0.0, 1.0, 1e300):
        for linkage in LINKAGES:
            assert all(np.isfinite(array).all() for array in fuse(components, threshold, linkage))
