from typing import Any

import numpy as np
import pytest

from models.partition import ClientSplit, Labels, split
from models.spec import ConfigError, DataConfig

MANY = Labels(np.arange(40_000) % 10, test_from=30_000)


def draw(labels: Labels = MANY, **settings: Any) -> list[ClientSplit]:
    about: dict[str, Any] = {
        "num_clients": 60,
        "ways": 3,
        "ways_half_range": 2,
        "shots": 10,
        "shots_half_range": 2,
        "test_shots": 4,
    }
    return split(labels, DataConfig(partition="w-way-s-shot", **{**about, **settings}), 0)


def class_counts(rows: np.ndarray, labels: Labels = MANY) -> list[int]:
    counts = np.bincount(labels.y[rows])
    return counts[counts > 0].tolist()  # type: ignore[no-any-return]


def test_the_bounds_of_ways_and_shots_are_inclusive() -> None:
    counts = [class_counts(part.train) for part in draw()]
    assert {len(classes) for classes in counts} == {2, 3, 4, 5}
    assert {shots for classes in counts for shots in classes} == {9, 10, 11, 12}


def test_all_classes_of_a_client_get_equally_many_shots() -> None:
    assert all(len(set(class_counts(part.train))) == 1 for part in draw())


@pytest.mark.parametrize(("half", "expected"), [(0, {10}), (1, {10, 11}), (10, set(range(1, 21)))])
def test_a_half_range_of_shots(half: int, expected: set[int]) -> None:
    drawn = {class_counts(part.train)[0] for part in draw(num_clients=300, ways_half_range=0, shots_half_range=half)}
    assert drawn == expected


@pytest.mark.parametrize(("ways", "expected"), [(1, {2, 3}), (9, {7, 8, 9}), (10, {8, 9})])
def test_a_client_has_two_classes_at_least_and_one_fewer_than_there_are_at_most(ways: int, expected: set[int]) -> None:
    assert {len(class_counts(part.train)) for part in draw(ways=ways)} == expected


def test_test_samples_are_of_the_clients_own_classes_and_of_the_test_set() -> None:
    for part in draw():
        assert part.test.min() >= 30_000
        assert part.train.max() < 30_000
        assert set(MANY.y[part.test]) == set(MANY.y[part.train])
        assert set(class_counts(part.test)) == {4}
        assert part.note == ""


def test_the_test_set_stays_apart_even_where_others_spread_it() -> None:
    parts = draw(MANY._replace(spreads_test=True))
    assert max(part.train.max() for part in parts) < 30_000 <= min(part.test.min() for part in parts)


def test_without_a_test_set_test_samples_are_what_nobody_trains_on() -> None:
    labels = Labels(np.arange(4000) % 10)
    parts = draw(labels, num_clients=20)
    trained = set(np.concatenate([part.train for part in parts]).tolist())
    for part in parts:
        assert not trained & set(part.test.tolist())
        assert set(labels.y[part.test]) == set(labels.y[part.train])


def test_where_samples_run_out_a_client_gets_fewer_and_that_is_said() -> None:
    labels = Labels(np.repeat([0, 1, 2], [15, 200, 200]))
    parts = draw(labels, num_clients=2, ways=2, ways_half_range=0, shots_half_range=0)
    short = [part for part in parts if part.note]
    assert short
    for part in short:
        assert part.note.startswith("fewer samples than drawn: class 0: ")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"ways": 15}, "ways = 15, ways_half_range = 2: expected between 2 and 9 classes"),
        ({"shots_half_range": 11}, "shots_half_range = 11: expected at most shots = 10"),
        ({"shots": 3000}, r"shots = 3000, num_clients = 60: no sample of class \d is left for client \d+"),
    ],
)
def test_what_cannot_be_drawn_is_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        draw(**settings)
