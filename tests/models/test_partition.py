import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models import partition
from models.spec import ConfigError, DataConfig


@given(
    name=st.sampled_from(["iid", "dirichlet"]),
    num_samples=st.integers(1, 300),
    num_classes=st.integers(1, 12),
    num_clients=st.integers(1, 9),
    alpha=st.floats(1e-3, 100),
    test_fraction=st.floats(0, 0.9),
    seed=st.integers(0, 5),
)
def test_every_sample_is_used_exactly_once(
    name: str, num_samples: int, num_classes: int, num_clients: int, alpha: float, test_fraction: float, seed: int
) -> None:
    labels = np.random.default_rng(seed).integers(0, num_classes, num_samples)
    config = DataConfig(partition=name, alpha=alpha, num_clients=num_clients, min_size=0, test_fraction=test_fraction)
    splits = partition.split(labels, config, seed)
    assert len(splits) == num_clients
    rows = np.concatenate([part for split in splits for part in split])
    assert sorted(rows.tolist()) == list(range(num_samples))
    for train, test in splits:
        assert len(test) == int((len(train) + len(test)) * test_fraction)


def test_the_same_seed_gives_the_same_split_and_another_one_another() -> None:
    labels = np.arange(200) % 10
    rows = [partition.split(labels, DataConfig(), seed)[0].train.tolist() for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


def test_iid_parts_differ_by_one_at_most() -> None:
    splits = partition.split(np.zeros(10, int), DataConfig(partition="iid", num_clients=4, min_size=2), 0)
    assert [len(train) + len(test) for train, test in splits] == [3, 3, 2, 2]


def test_dirichlet_keeps_to_the_minimum() -> None:
    splits = partition.split(np.arange(100) % 10, DataConfig(alpha=0.3, num_clients=5, min_size=12), 0)
    assert min(len(train) + len(test) for train, test in splits) >= 12


def test_a_small_alpha_gives_each_client_few_classes() -> None:
    labels = np.arange(2000) % 10
    held = {}
    for alpha in (0.05, 100.0):
        parts = partition.dirichlet(labels, DataConfig(alpha=alpha, num_clients=4), np.random.default_rng(0))
        held[alpha] = (partition.histogram(labels, parts, 10) > 0).sum()
    assert held[0.05] < 25 < held[100.0] == 40


def test_a_full_client_gets_no_more_of_the_next_class() -> None:
    labels = np.repeat([0, 1], 100)
    config = DataConfig(alpha=0.05, num_clients=2, min_size=0)
    num_full = 0
    for seed in range(20):
        held = partition.histogram(labels, partition.dirichlet(labels, config, np.random.default_rng(seed)), 2)
        full = held[:, 0] == 100
        num_full += full.sum()
        assert (held[full, 1] == 0).all()
    assert num_full > 5


def test_when_the_open_clients_have_no_share_the_draw_stands() -> None:
    """With extreme alpha one client gets all of a class; if it is full, nobody else has a share to scale up."""
    labels = np.repeat([0, 1], 100)
    config = DataConfig(alpha=1e-12, num_clients=2, min_size=0)
    seen = {
        tuple(sorted(len(part) for part in partition.dirichlet(labels, config, np.random.default_rng(seed))))
        for seed in range(20)
    }
    assert (0, 200) in seen


@pytest.mark.parametrize("name", ["iid", "dirichlet"])
def test_too_few_samples_are_refused_at_once(name: str) -> None:
    config = DataConfig(partition=name, num_clients=4, min_size=10)
    with pytest.raises(ConfigError, match=r"num_clients = 4 of min_size = 10 need 40 samples .*alpha = 0.5.* are 39"):
        partition.split(np.zeros(39, int), config, 0)


def test_no_samples_at_all_are_refused() -> None:
    with pytest.raises(ConfigError, match="there are 0"):
        partition.split(np.zeros(0, int), DataConfig(min_size=0), 0)


@pytest.mark.timeout(10)
def test_a_hopeless_dirichlet_ends_and_says_why() -> None:
    config = DataConfig(alpha=0.01, num_clients=20, min_size=50)
    with pytest.raises(ConfigError, match=r"alpha = 0.01, num_clients = 20, min_size = 50, 1000 samples"):
        partition.split(np.arange(1000) % 10, config, 0)


def test_an_unknown_partition_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown partition 'dirichlett'; did you mean 'dirichlet'"):
        partition.split(np.zeros(50, int), DataConfig(partition="dirichlett"), 0)


def test_a_histogram_counts_by_part_and_class() -> None:
    counted = partition.histogram(np.array([0, 1, 1, 3]), [np.array([0, 1]), np.array([2, 3]), np.array([], int)], 5)
    assert counted.tolist() == [[1, 1, 0, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0]]
