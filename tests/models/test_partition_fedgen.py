from typing import Any

import numpy as np
import pytest

from models.partition import ClientSplit, Labels, split
from models.spec import ConfigError, DataConfig

MNIST_LIKE = Labels(np.arange(7000) % 10, test_from=6000)


def draw(labels: Labels = MNIST_LIKE, **settings: Any) -> list[ClientSplit]:
    return split(
        labels, DataConfig(**{"partition": "fedgen-dirichlet", "num_clients": 10, "alpha": 0.3, **settings}), 1
    )


def test_no_class_and_no_client_takes_more_than_the_cap() -> None:
    """The cap is 0.5 x 6,000 / 10 = 300 rows; a class may give 300 and a client stops at the first that fills it."""
    parts = draw()
    trained = np.concatenate([part.train for part in parts])
    assert np.bincount(MNIST_LIKE.y[trained]).tolist() == [300] * 10
    assert trained.max() < 6000
    assert max(len(part.train) for part in parts) < 600
    assert min(len(part.train) for part in parts) >= 10


def test_a_ratio_limits_a_small_class_by_its_size() -> None:
    labels = Labels(np.repeat([0, 1], [100, 5900]))
    trained = np.concatenate([part.train for part in draw(labels, min_size=0)])
    assert np.bincount(labels.y[trained]).tolist() == [50, 300]


def test_a_ratio_of_1_uses_every_training_sample() -> None:
    assert sum(len(part.train) for part in draw(ratio=1)) == 6000


def test_a_client_is_tested_evenly_on_the_classes_it_trains_on() -> None:
    for part in draw():
        owned = np.unique(MNIST_LIKE.y[part.train])
        assert np.bincount(MNIST_LIKE.y[part.test], minlength=10)[owned].tolist() == [10] * len(owned)
        assert len(part.test) == 10 * len(owned)
        assert part.test.min() >= 6000


def test_without_a_test_set_it_tests_on_what_nobody_trains_on() -> None:
    labels = Labels(MNIST_LIKE.y)
    parts = draw(labels)
    trained = set(np.concatenate([part.train for part in parts]).tolist())
    assert all(len(part.test) and not trained & set(part.test.tolist()) for part in parts)


def test_with_nothing_left_to_test_on_it_refuses() -> None:
    with pytest.raises(ConfigError, match=r"ratio = 1.*no test sample for each client is left"):
        draw(Labels(MNIST_LIKE.y), ratio=1)


def test_a_minimum_that_cannot_be_met_is_refused_with_all_settings() -> None:
    with pytest.raises(ConfigError, match=r"min_size = 301 need 3010 samples .*alpha = 0.3, ratio = 0.5.* are 3000"):
        draw(min_size=301)
    with pytest.raises(ConfigError, match=r"alpha = 0.3, ratio = 0.5, num_clients = 10, min_size = 299, 3000 samples"):
        draw(min_size=299)
