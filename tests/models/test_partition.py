from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from models import partition
from models.partition import ClientSplit, Labels
from models.partitions.dirichlet import dirichlet
from models.spec import ConfigError, DataConfig
from tests.models.parts import histogram


def split_or_refusal(labels: Labels, config: DataConfig, seed: int) -> tuple[list[ClientSplit], str]:
    """Return the splits, or none and why there are none."""
    try:
        return partition.split(labels, config, seed), ""
    except ConfigError as error:
        return [], str(error)


@given(
    name=st.sampled_from(["iid", "dirichlet", "shard"]),
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
    config = DataConfig(
        partition=name,
        alpha=alpha,
        num_clients=num_clients,
        min_size=0,
        test_fraction=test_fraction,
        shards_per_client=1,
    )
    assume(name != "shard" or num_samples >= num_clients)
    splits = partition.split(Labels(labels), config, seed)
    assert len(splits) == num_clients
    rows = np.concatenate([part for train, test, _ in splits for part in (train, test)])
    assert sorted(rows.tolist()) == list(range(num_samples))
    for train, test, _ in splits:
        assert len(test) == int((len(train) + len(test)) * test_fraction)


@given(
    name=st.sampled_from(sorted(set(partition.PARTITIONS) - {"indices"})),
    num_samples=st.integers(1, 300),
    num_classes=st.integers(1, 12),
    num_clients=st.integers(1, 9),
    test_share=st.sampled_from([None, 0.2]),
    spreads_test=st.booleans(),
    shots=st.integers(1, 30),
    ratio=st.floats(0.1, 1),
    seed=st.integers(0, 5),
)
def test_every_partition_uses_a_sample_once_at_most_or_refuses(
    name: str,
    num_samples: int,
    num_classes: int,
    num_clients: int,
    test_share: float | None,
    spreads_test: bool,
    shots: int,
    ratio: float,
    seed: int,
) -> None:
    labels = np.random.default_rng(seed).integers(0, num_classes, num_samples)
    test_from = None if test_share is None or num_samples < 5 else int(num_samples * (1 - test_share))
    config = DataConfig(
        partition=name, num_clients=num_clients, min_size=0, shots=shots, shots_half_range=1, ratio=ratio
    )
    splits, refusal = split_or_refusal(Labels(labels, test_from, spreads_test), config, seed)
    if not splits:
        assert f"'{name}'" in refusal
        assert "failed: " not in refusal
        return
    rows = np.concatenate([part for train, test, _ in splits for part in (train, test)])
    assert len(set(rows.tolist())) == len(rows)
    assert all(part.dtype == np.int64 for train, test, _ in splits for part in (train, test))
    end = (
        num_samples
        if spreads_test and name in {"iid", "dirichlet", "sample-dirichlet", "shard", "pathological"}
        else test_from
    )
    assert max((train.max(initial=-1) for train, _, _ in splits)) < (end or num_samples)
    assert (rows >= 0).all()
    assert (rows < num_samples).all()


def test_the_same_seed_gives_the_same_split_and_another_one_another() -> None:
    labels = np.arange(200) % 10
    rows = [partition.split(Labels(labels), DataConfig(), seed)[0].train.tolist() for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


def test_iid_parts_differ_by_one_at_most() -> None:
    splits = partition.split(Labels(np.zeros(10, int)), DataConfig(partition="iid", num_clients=4, min_size=2), 0)
    assert [len(train) + len(test) for train, test, _ in splits] == [3, 3, 2, 2]


def test_dirichlet_keeps_to_the_minimum() -> None:
    splits = partition.split(Labels(np.arange(100) % 10), DataConfig(alpha=0.3, num_clients=5, min_size=12), 0)
    assert min(len(train) + len(test) for train, test, _ in splits) >= 12


def test_a_small_alpha_gives_each_client_few_classes() -> None:
    labels = np.arange(2000) % 10
    held = {}
    for alpha in (0.05, 100.0):
        parts = dirichlet(Labels(labels), DataConfig(alpha=alpha, num_clients=4), np.random.default_rng(0))
        held[alpha] = (histogram(labels, parts, 10) > 0).sum()
    assert held[0.05] < 25 < held[100.0] == 40


def test_a_full_client_gets_no_more_of_the_next_class() -> None:
    labels = np.repeat([0, 1], 100)
    config = DataConfig(alpha=0.05, num_clients=2, min_size=0)
    num_full = 0
    for seed in range(20):
        held = histogram(labels, dirichlet(Labels(labels), config, np.random.default_rng(seed)), 2)
        full = held[:, 0] == 100
        num_full += full.sum()
        assert (held[full, 1] == 0).all()
    assert num_full > 5


def test_when_the_open_clients_have_no_share_the_draw_stands() -> None:
    """With extreme alpha one client gets all of a class; if it is full, nobody else has a share to scale up."""
    labels = np.repeat([0, 1], 100)
    config = DataConfig(alpha=1e-12, num_clients=2, min_size=0)
    seen = {
        tuple(sorted(len(part) for part in dirichlet(Labels(labels), config, np.random.default_rng(seed))))
        for seed in range(20)
    }
    assert (0, 200) in seen


@pytest.mark.parametrize("name", ["iid", "dirichlet"])
def test_too_few_samples_are_refused_at_once(name: str) -> None:
    config = DataConfig(partition=name, num_clients=4, min_size=10)
    with pytest.raises(
        ConfigError, match=rf"num_clients = 4 of min_size = 10 need 40 samples .*'{name}'.*, there are 39"
    ):
        partition.split(Labels(np.zeros(39, int)), config, 0)


def test_no_samples_at_all_are_refused() -> None:
    with pytest.raises(ConfigError, match="there are 0"):
        partition.split(Labels(np.zeros(0, int)), DataConfig(min_size=0), 0)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("num_samples", "about"),
    [
        (70_000, {"num_clients": 1000, "alpha": 0.1}),
        (70_000, {"num_clients": 1000, "alpha": 0.1, "min_size": 40}),
        (60_000, {"num_clients": 200, "alpha": 0.1}),
        (60_000, {"num_clients": 100, "alpha": 0.1}),
        (60_000, {"num_clients": 100, "alpha": 0.1, "partition": "fedgen-dirichlet"}),
    ],
)
def test_many_clients_end_in_time_with_a_partition_or_a_refusal(num_samples: int, about: dict[str, Any]) -> None:
    config = DataConfig(**about)
    splits, refusal = split_or_refusal(Labels(np.arange(num_samples) % 10), config, 0)
    if splits:
        assert min(len(train) + len(test) for train, test, _ in splits) >= config.min_size
    else:
        settings = ("alpha = 0.1", f"num_clients = {config.num_clients}", f"min_size = {config.min_size}")
        assert all(setting in refusal for setting in settings)


def test_an_alpha_beyond_what_can_be_drawn_is_even() -> None:
    splits = partition.split(Labels(np.zeros(40, int)), DataConfig(alpha=1e308, min_size=10), 0)
    assert [len(train) + len(test) for train, test, _ in splits] == [10] * 4


@pytest.mark.timeout(10)
def test_a_hopeless_dirichlet_ends_and_says_why() -> None:
    config = DataConfig(alpha=0.01, num_clients=20, min_size=50)
    with pytest.raises(ConfigError, match=r"alpha = 0.01, num_clients = 20, min_size = 50, 1000 samples"):
        partition.split(Labels(np.arange(1000) % 10), config, 0)


def test_an_unknown_partition_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="unknown partition 'dirichlett'; did you mean 'dirichlet'"):
        partition.split(Labels(np.zeros(50, int)), DataConfig(partition="dirichlett"), 0)


def test_the_drawn_indices_carry_the_names_that_are_read_back() -> None:
    labels = Labels(np.arange(200) % 10)
    drawn = partition.drawn_indices(DataConfig(), labels, 3)
    assert list(drawn)[:3] == ["client00_train", "client00_test", "client01_train"]
    assert {rows.dtype for rows in drawn.values()} == {np.dtype(np.uint32)}
    splits = partition.split(labels, DataConfig(), 3)
    assert drawn["client03_test"].tolist() == splits[3].test.tolist()


OWN: dict[str, Any] = {
    "twice": [np.array([0, 1]), np.array([1, 2])],
    "outside": [np.array([0]), np.array([10])],
    "below": [ClientSplit(np.array([-1]), np.array([1])), np.array([2])],
    "too_few": [np.array([0])],
    "nonsense": [None, None],
}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("twice", "row 1 is used more than once"),
        ("outside", r"row 10 is outside 0..9"),
        ("below", r"row -1 is outside 0..9"),
        ("too_few", "expected parts for num_clients = 2, got 1"),
        ("nonsense", "failed: "),
    ],
)
def test_a_partition_from_elsewhere_keeps_the_promises_or_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setattr(partition, "resolve", lambda kind, wanted, known: lambda *settings: OWN[name])
    with pytest.raises(ConfigError, match=text):
        partition.split(Labels(np.zeros(10, int)), DataConfig(num_clients=2), 0)


def test_each_task_is_spread_by_a_draw_of_its_own() -> None:
    labels = Labels(np.arange(240) % 6, test_from=180)
    config = DataConfig(partition="sample-dirichlet", num_clients=3, min_size=6, test_fraction=0)
    splits = partition.split(labels, config, 0, [range(3), range(3, 6)])
    assert sorted(np.concatenate([split.train for split in splits]).tolist()) == list(range(180))
    by_task = [histogram(labels.y, [split.train for split in splits], 6)[:, part] for part in ([0, 1, 2], [3, 4, 5])]
    assert all(counts.sum(axis=1).min() >= 6 for counts in by_task)
    assert by_task[0].tolist() != by_task[1].tolist()


def test_one_task_of_all_classes_is_the_split_without_tasks() -> None:
    labels, config = Labels(np.arange(200) % 10), DataConfig()
    plain, one = (partition.split(labels, config, 3, tasks) for tasks in ((), [range(10)]))
    assert [split.train.tolist() for split in plain] == [split.train.tolist() for split in one]


def test_public_rows_stay_out_of_every_task() -> None:
    labels = Labels(np.arange(200) % 4)
    config = DataConfig(partition="iid", num_clients=2, public_per_class=5, public_classes=4)
    splits = partition.split(labels, config, 0, [range(2), range(2, 4)])
    rows = np.concatenate([part for train, test, _ in splits for part in (train, test)])
    assert not set(partition.public_rows(labels, config, 0).tolist()) & set(rows.tolist())
    assert len(rows) == len(set(rows.tolist())) == 180


def test_sample_dirichlet_caps_nobody() -> None:
    config = DataConfig(partition="sample-dirichlet", alpha=0.05, num_clients=4, min_size=0, test_fraction=0)
    splits = partition.split(Labels(np.zeros(1000, int)), config, 1)
    assert max(len(split.train) for split in splits) > 500


def test_tasks_that_are_read_from_a_file_are_those_that_were_drawn(tmp_path: Any) -> None:
    labels, config, tasks = Labels(np.arange(200) % 10), DataConfig(min_size=2), [range(5), range(5, 10)]
    drawn = partition.drawn_indices(config, labels, 3, tasks)
    np.savez(tmp_path / "rows.npz", **drawn)  # type: ignore[arg-type]
    again = DataConfig(partition="indices", indices=str(tmp_path / "rows.npz"))
    read = partition.drawn_indices(again, labels, 3, tasks)
    assert {name: rows.tolist() for name, rows in read.items()} == {name: rows.tolist() for name, rows in drawn.items()}
