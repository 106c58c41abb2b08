"""Few classes for each client, by count rather than by chance."""

from __future__ import annotations

import numpy as np

from models.partition import Labels, require_sizes
from models.spec import ConfigError, DataConfig


def pathological(labels: Labels, config: DataConfig, random: np.random.Generator) -> list[np.ndarray]:
    """Give each client `classes_per_client` classes, each class shared evenly by its clients.

    Classes are drawn so that the numbers of their clients differ by one at most; a class that no client drew is unused.

    Raises:
        ConfigError: there are fewer classes, or a client gets fewer than `min_size` rows.
    """
    present = np.unique(labels.spread)
    if len(present) < config.classes_per_client:
        raise ConfigError(
            f"[data] partition = 'pathological' with classes_per_client = {config.classes_per_client}: the samples "
            f"have {len(present)} classes"
        )
    holders: list[list[int]] = [[] for _ in present]
    for client in range(config.num_clients):
        by_use = np.lexsort((random.random(len(present)), np.array([len(clients) for clients in holders])))
        for chosen in by_use[: config.classes_per_client]:
            holders[chosen].append(client)
    pieces: list[list[np.ndarray]] = [[] for _ in range(config.num_clients)]
    for label, clients in zip(present, holders, strict=True):
        rows = random.permutation(np.flatnonzero(labels.spread == label))
        for client, piece in zip(clients, np.array_split(rows, max(len(clients), 1)), strict=False):
            pieces[client].append(piece)
    parts = [np.concatenate(rows) for rows in pieces]
    require_sizes(parts, config, f"classes_per_client = {config.classes_per_client}")
    return parts


def shard(labels: Labels, config: DataConfig, random: np.random.Generator) -> list[np.ndarray]:
    """Sort the rows by class, cut them into equal shards, and give each client `shards_per_client` at random.

    Raises:
        ConfigError: there are fewer rows than shards, or a client gets fewer than `min_size` rows.
    """
    num_shards = config.num_clients * config.shards_per_client
    rows = random.permutation(len(labels.spread))
    if len(rows) < num_shards:
        raise ConfigError(
            f"[data] partition = 'shard' with shards_per_client = {config.shards_per_client}, num_clients = "
            f"{config.num_clients} needs {num_shards} samples, there are {len(rows)}"
        )
    shards = np.array_split(rows[np.argsort(labels.spread[rows], kind="stable")], num_shards)
    dealt = random.permutation(num_shards).reshape(config.num_clients, -1)
    parts = [np.concatenate([shards[index] for index in indices]) for indices in dealt]
    require_sizes(parts, config, f"shards_per_client = {config.shards_per_client}")
    return parts
