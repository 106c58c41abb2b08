"""How samples are spread over clients: partition by label, then a train and a test part inside each client.

A partition is a function `(labels, config, random) -> index arrays`; to add one, write it and name it in `PARTITIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from models import seeding
from models.registry import resolve
from models.spec import ConfigError, DataConfig


class ClientSplit(NamedTuple):
    """Rows of one client: `train` and `test` part, int64, disjoint."""

    train: np.ndarray
    test: np.ndarray


def split(labels: np.ndarray, config: DataConfig, seed: int) -> list[ClientSplit]:
    """Spread all rows over `num_clients`, each row once, and part each client's into train and test.

    The test part is drawn at random, not by class, and holds `test_fraction` of the client's rows, rounded down.

    Raises:
        ConfigError: the partition is unknown, or its settings cannot be met by these labels.
    """
    partition = resolve("partition", config.partition, PARTITIONS)
    parts = partition(labels, config, seeding.generator(seed, "partition"))
    return [_train_and_test(rows, config, seed, index) for index, rows in enumerate(parts)]


def histogram(labels: np.ndarray, parts: Sequence[np.ndarray], num_classes: int) -> np.ndarray:
    """Return how many samples of each class stand in each part, int64 [parts, classes]."""
    counted = [np.bincount(labels[rows], minlength=num_classes) for rows in parts]
    return np.stack(counted).astype(np.int64)


def iid(labels: np.ndarray, config: DataConfig, random: np.random.Generator) -> list[np.ndarray]:
    """Deal all rows out at random, in parts that differ by one at most."""
    _require_enough(labels, config)
    return list(np.array_split(random.permutation(len(labels)), config.num_clients))


def dirichlet(labels: np.ndarray, config: DataConfig, random: np.random.Generator) -> list[np.ndarray]:
    """Share out each class by Dirichlet(alpha) proportions, as the PFLlib family of experiments does.

    A client that already holds its even share gets nothing more while others do not; all is drawn anew until every
    client has `min_size` rows. Lower `alpha` is more uneven. The number of draws is bounded, by a few seconds' work.

    Raises:
        ConfigError: no draw gave every client `min_size` rows, or none can.
    """
    _require_enough(labels, config)
    class_sizes = np.bincount(labels)
    max_draws = 1 + _MAX_WORK // (len(class_sizes) * (config.num_clients + _FIXED_WORK))
    for _ in range(max_draws):
        cuts = _draw_cuts(class_sizes, config, random)
        sizes = np.diff(cuts, prepend=0, axis=1).sum(axis=0)
        if sizes.min() >= config.min_size:
            return _deal(labels, cuts, random)
    raise ConfigError(
        f"[data] no Dirichlet draw of {max_draws} gave each client enough: alpha = {config.alpha}, "
        f"num_clients = {config.num_clients}, min_size = {config.min_size}, {len(labels)} samples; "
        "raise alpha or lower min_size"
    )


PARTITIONS: dict[str, Callable[[np.ndarray, DataConfig, np.random.Generator], list[np.ndarray]]] = {
    "iid": iid,
    "dirichlet": dirichlet,
}
"""Partition functions by name."""

_FIXED_WORK = 500
"""What a class costs in a draw beside its clients, in clients."""

_MAX_WORK = 20_000_000
"""Classes x clients over all draws: 2 s at most on a desktop, well under 10 s on a small board."""


def _require_enough(labels: np.ndarray, config: DataConfig) -> None:
    needed = config.num_clients * max(config.min_size, 0)
    if len(labels) < needed or not len(labels):
        raise ConfigError(
            f"[data] num_clients = {config.num_clients} of min_size = {config.min_size} need {max(needed, 1)} samples "
            f"(partition {config.partition}, alpha = {config.alpha}), there are {len(labels)}"
        )


def _draw_cuts(class_sizes: np.ndarray, config: DataConfig, random: np.random.Generator) -> np.ndarray:
    """Draw where each class is cut, int64 [classes, clients]: client i ends at `cuts[class, i]`."""
    even_share = class_sizes.sum() / config.num_clients
    held = np.zeros(config.num_clients)
    cuts = np.empty((len(class_sizes), config.num_clients), np.int64)
    for label, size in enumerate(class_sizes):
        shares = random.dirichlet(np.full(config.num_clients, config.alpha))
        open_shares = shares * (held < even_share)
        shares = open_shares if open_shares.sum() > 0 else shares
        cuts[label] = np.floor(np.cumsum(shares / shares.sum()) * size)
        cuts[label, -1] = size
        held += np.diff(cuts[label], prepend=0)
    return cuts


def _deal(labels: np.ndarray, cuts: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
    """Shuffle each class and hand its pieces out."""
    pieces: list[list[np.ndarray]] = [[] for _ in range(cuts.shape[1])]
    for label, ends in enumerate(cuts):
        rows = random.permutation(np.flatnonzero(labels == label))
        for client, piece in enumerate(np.split(rows, ends[:-1])):
            pieces[client].append(piece)
    return [np.concatenate(rows) for rows in pieces]


def _train_and_test(rows: np.ndarray, config: DataConfig, seed: int, index: int) -> ClientSplit:
    rows = seeding.generator(seed, "train and test", index).permutation(rows).astype(np.int64)
    num_test = int(len(rows) * config.test_fraction)
    return ClientSplit(rows[num_test:], rows[:num_test])
