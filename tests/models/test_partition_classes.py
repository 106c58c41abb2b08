import numpy as np
import pytest

from models.partition import ClientSplit, Labels, split
from models.spec import ConfigError, DataConfig
from tests.models.parts import histogram


def rows(part: ClientSplit) -> np.ndarray:
    return np.concatenate([part.train, part.test])


@pytest.mark.parametrize(("num_clients", "per_client"), [(4, 2), (10, 3), (20, 2), (3, 10)])
def test_each_client_holds_so_many_classes_and_classes_are_used_evenly(num_clients: int, per_client: int) -> None:
    labels = np.arange(2000) % 10
    config = DataConfig(partition="pathological", num_clients=num_clients, classes_per_client=per_client)
    held = histogram(labels, [rows(part) for part in split(Labels(labels), config, 0)], 10)
    assert (np.count_nonzero(held, axis=1) == per_client).all()
    clients_per_class = np.count_nonzero(held, axis=0)
    assert clients_per_class.max() - clients_per_class.min() <= 1
    for label in np.flatnonzero(clients_per_class):
        given = held[:, label][held[:, label] > 0]
        assert given.sum() == 200
        assert given.max() - given.min() <= 1


def test_classes_are_drawn_by_the_seed() -> None:
    labels = np.arange(2000) % 10
    config = DataConfig(partition="pathological")
    drawn = [histogram(labels, [rows(part) for part in split(Labels(labels), config, seed)], 10) for seed in (0, 0, 1)]
    assert (drawn[0] == drawn[1]).all()
    assert (drawn[0] != drawn[2]).any()


def test_more_classes_than_there_are_cannot_be_drawn() -> None:
    config = DataConfig(partition="pathological", classes_per_client=3)
    with pytest.raises(ConfigError, match="classes_per_client = 3: the samples have 2 classes"):
        split(Labels(np.arange(100) % 2), config, 0)


def test_a_shard_is_of_neighbouring_classes_and_all_rows_are_used() -> None:
    labels = np.arange(2000) % 10
    config = DataConfig(partition="shard", num_clients=10, shards_per_client=2)
    parts = [rows(part) for part in split(Labels(labels), config, 0)]
    assert [len(part) for part in parts] == [200] * 10
    assert sorted(np.concatenate(parts).tolist()) == list(range(2000))
    assert np.count_nonzero(histogram(labels, parts, 10), axis=1).max() == 2


def test_shards_are_not_in_the_order_of_rows() -> None:
    config = DataConfig(partition="shard", num_clients=1, shards_per_client=1, test_fraction=0)
    assert split(Labels(np.zeros(50, int)), config, 0)[0].train.tolist() != list(range(50))


@pytest.mark.parametrize(
    ("config", "num_rows", "text"),
    [
        (DataConfig(partition="shard", num_clients=6), 11, "needs 12 samples, there are 11"),
        (DataConfig(partition="shard", num_clients=6), 59, r"client \d 9 of 59 samples: expected min_size = 10"),
        (
            DataConfig(partition="pathological", num_clients=6),
            50,
            r"client \d \d+ of 50 samples: expected min_size = 10",
        ),
    ],
)
def test_what_is_too_small_is_refused(config: DataConfig, num_rows: int, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        split(Labels(np.arange(num_rows) % 10), config, 0)
