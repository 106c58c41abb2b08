"""How samples are spread over clients.

A partition is a function `(labels, config, random)` that returns for each client either its rows, which are then split
into a train and a test part, or a `ClientSplit` of its own making. To add one, write it and name it in `PARTITIONS`.
Public samples are held out before it is asked: it sees the other labels only, numbered without a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from models import seeding
from models.registry import resolve
from models.spec import ConfigError, DataConfig

PARTITIONS = {
    "iid": "models.partitions.even:iid",
    "dirichlet": "models.partitions.dirichlet:dirichlet",
    "pathological": "models.partitions.classes:pathological",
    "shard": "models.partitions.classes:shard",
    "w-way-s-shot": "models.partitions.ways:w_way_s_shot",
    "sample-dirichlet": "models.partitions.dirichlet:sample_dirichlet",
    "fedgen-dirichlet": "models.partitions.fedgen:fedgen_dirichlet",
    "indices": "models.partitions.indices:indices",
}
"""Where each partition is."""

PARTITION_KEYS = {
    "iid": (),
    "dirichlet": ("alpha",),
    "pathological": ("classes_per_client",),
    "shard": ("shards_per_client",),
    "w-way-s-shot": ("ways", "ways_half_range", "shots", "shots_half_range", "test_shots"),
    "sample-dirichlet": ("alpha",),
    "fedgen-dirichlet": ("alpha", "ratio"),
    "indices": ("indices",),
}
"""The keys of `[data]` that not all partitions have."""


class Labels(NamedTuple):
    """What a partition sees of a data set: the label of each row, and which rows are the test set apart, if any."""

    y: np.ndarray
    test_from: int | None = None
    spreads_test: bool = False
    """Whether the test rows are spread over the clients like all others."""
    held_out: np.ndarray = np.empty(0, np.int64)
    """The data set's own numbers of the rows that are public and are left out here, ascending."""

    @property
    def spread(self) -> np.ndarray:
        """The labels of the rows that are spread over the clients: the first so many."""
        return self.y if self.spreads_test else self.train

    @property
    def train(self) -> np.ndarray:
        """The labels of the rows in front of the test set."""
        return self.y[: self.test_from]

    @property
    def test_rows(self) -> np.ndarray:
        """The rows of the test set apart; none where the data set has none."""
        return np.arange(len(self.train), len(self.y))

    def without(self, rows: np.ndarray) -> Labels:
        """Return the labels of all rows but these."""
        test_from = None if self.test_from is None else self.test_from - int(np.count_nonzero(rows < self.test_from))
        return Labels(np.delete(self.y, rows), test_from, self.spreads_test, rows)


class ClientSplit(NamedTuple):
    """Rows of one client: `train` and `test` part, int64, disjoint; and a line for people, if there is need of one."""

    train: np.ndarray
    test: np.ndarray
    note: str = ""


def public_rows(labels: Labels, config: DataConfig, seed: int) -> np.ndarray:
    """Return the rows that are public and belong to no client, int64 and ascending, none of them a test row.

    There are equally many of each public class, drawn by the seed alone: whatever the partition, they are the same.

    Raises:
        ConfigError: a class has too few samples.
    """
    random = seeding.generator(seed, "public data")
    drawn = [np.empty(0, np.int64)]
    for label in range(config.num_public_classes):
        rows = np.flatnonzero(labels.train == label)
        if len(rows) < int(config.public_per_class):
            raise ConfigError(
                f"[data] public_per_class = {config.public_per_class}, public_classes = {config.public_classes}: "
                f"class {label} has {len(rows)} samples to hold out"
            )
        drawn.append(random.permutation(rows)[: int(config.public_per_class)])
    return np.sort(np.concatenate(drawn))


def split(labels: Labels, config: DataConfig, seed: int, tasks: Sequence[range] = ()) -> list[ClientSplit]:
    """Spread rows over `num_clients`, each row once at most, and part each client's into train and test.

    Public rows are left out. Unless the partition makes the test parts itself, they are drawn at random, not by class,
    and hold `test_fraction` of a client's rows, rounded down. If the classes come in several tasks, each task's rows
    are spread by a draw of their own; a file of `indices` has drawn all of them already.

    Raises:
        ConfigError: the partition is unknown, or its settings cannot be met by these labels.
    """
    public = public_rows(labels, config, seed)
    if len(tasks) < 2 or config.partition == "indices":
        return _split_without(public, labels, config, seed)
    parts = []
    for number, classes in enumerate(tasks, start=1):
        others = np.flatnonzero((labels.y < classes.start) | (labels.y >= classes.stop))
        own = labels._replace(y=labels.y - classes.start)
        task_seed = seeding.derive(seed, "task", number)
        parts.append(_split_without(np.union1d(public, others), own, config, task_seed))
    return [_joined(splits) for splits in zip(*parts, strict=True)]


def _split_without(held_out: np.ndarray, labels: Labels, config: DataConfig, seed: int) -> list[ClientSplit]:
    splits = _spread(labels.without(held_out), config, seed)
    kept = np.delete(np.arange(len(labels.y)), held_out)
    return [ClientSplit(kept[train], kept[test], note) for train, test, note in splits]


def _joined(splits: Sequence[ClientSplit]) -> ClientSplit:
    trains, tests, notes = zip(*splits, strict=True)
    return ClientSplit(np.concatenate(trains), np.concatenate(tests), "; ".join(dict.fromkeys(filter(None, notes))))


def _spread(labels: Labels, config: DataConfig, seed: int) -> list[ClientSplit]:
    partition = resolve("partition", config.partition, PARTITIONS)
    try:
        parts = partition(labels, config, seeding.generator(seed, "partition"))
        splits = [
            part if isinstance(part, ClientSplit) else _train_and_test(part, config, seed, index)
            for index, part in enumerate(parts)
        ]
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"[data] partition = {config.partition!r} failed: {type(error).__name__}: {error}") from error
    _check(splits, len(labels.y), config)
    return splits


def drawn_indices(config: DataConfig, labels: Labels, seed: int, tasks: Sequence[range] = ()) -> dict[str, np.ndarray]:
    """Return all rows that `split` draws, uint32, under the names that the `indices` partition reads."""
    return named_rows(split(labels, config, seed, tasks))


def named_rows(splits: Sequence[ClientSplit]) -> dict[str, np.ndarray]:
    """Return the rows of splits, uint32, under the names that the `indices` partition reads."""
    return {
        client_array(index, part): rows.astype(np.uint32)
        for index, (train, test, _) in enumerate(splits)
        for part, rows in (("train", train), ("test", test))
    }


def client_array(index: int, part: str) -> str:
    """Return the name of the array that holds the rows of a client's `train` or `test` part."""
    return f"client{index:02d}_{part}"


def require_enough(num_rows: int, config: DataConfig, settings: str = "") -> None:
    """Refuse at once what no draw can meet; `settings` says what else the draw depends on."""
    needed = config.num_clients * config.min_size
    if num_rows < needed:
        raise ConfigError(
            f"[data] num_clients = {config.num_clients} of min_size = {config.min_size} need {needed} samples "
            f"to give (partition = {config.partition!r}{settings and ', '}{settings}), there are {num_rows}"
        )


def require_sizes(parts: Sequence[np.ndarray], config: DataConfig, settings: str) -> None:
    """Refuse parts of which one is smaller than `min_size`; `settings` says what made them so."""
    sizes = [len(part) for part in parts]
    if min(sizes) < config.min_size:
        raise ConfigError(
            f"[data] partition = {config.partition!r} with {settings}, num_clients = {config.num_clients} gives client "
            f"{int(np.argmin(sizes))} {min(sizes)} of {sum(sizes)} samples: expected min_size = {config.min_size}"
        )


def _train_and_test(rows: np.ndarray, config: DataConfig, seed: int, index: int) -> ClientSplit:
    rows = seeding.generator(seed, "train and test", index).permutation(rows).astype(np.int64)
    num_test = int(len(rows) * config.test_fraction)
    return ClientSplit(rows[num_test:], rows[:num_test])


def _check(splits: Sequence[ClientSplit], num_rows: int, config: DataConfig) -> None:
    """Refuse what breaks a promise of `split`, whoever made it."""
    where = f"[data] partition = {config.partition!r}"
    if len(splits) != config.num_clients:
        raise ConfigError(f"{where}: expected parts for num_clients = {config.num_clients}, got {len(splits)}")
    rows = np.concatenate([part for train, test, _ in splits for part in (train, test)])
    outside = (rows < 0) | (rows >= num_rows)
    if outside.any():
        raise ConfigError(f"{where}: row {rows[outside][0]} is outside 0..{num_rows - 1}")
    uses = np.bincount(rows, minlength=num_rows)
    if uses.max(initial=0) > 1:
        raise ConfigError(f"{where}: row {int(np.argmax(uses > 1))} is used more than once")
