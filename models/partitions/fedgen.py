"""The partition of FedGen's experiments, which FedPA's follow."""

from __future__ import annotations

import numpy as np

from models.partition import ClientSplit, Labels
from models.partitions.decks import Decks, decks_for_tests
from models.partitions.dirichlet import deal, draw_cuts
from models.spec import ConfigError, DataConfig


def fedgen_dirichlet(labels: Labels, config: DataConfig, random: np.random.Generator) -> list[ClientSplit]:
    """Share out the part `ratio` of the train set by Dirichlet(alpha), and test each client evenly on its own classes.

    With N train rows and M clients, a client that holds ratio N / M rows gets no more while others do not, and with
    ratio < 1 no class gives more than that either, as in FedGen's code. A client's test part has 1/M of the test rows
    of each class it trains on, rounded down: of the test set apart, or where there is none of what no client uses.

    Raises:
        ConfigError: no draw gave every client `min_size` rows, none can, or nothing is left to test on.
    """
    class_sizes = np.bincount(labels.train)
    cap = config.ratio * len(labels.train) / config.num_clients
    if config.ratio < 1:
        class_sizes = np.minimum(np.floor(config.ratio * class_sizes), np.floor(cap)).astype(np.int64)
    settings = f"alpha = {config.alpha}, ratio = {config.ratio}"
    trains = deal(labels.train, draw_cuts(class_sizes, cap, config, random, settings), random)
    decks = decks_for_tests(labels, trains, random)
    shares = [decks.count(label) // config.num_clients for label in range(len(class_sizes))]
    if not any(shares):
        raise ConfigError(
            f"[data] partition = 'fedgen-dirichlet' with ratio = {config.ratio}, num_clients = {config.num_clients}: "
            "no test sample for each client is left; the data set has no test part, so lower ratio or num_clients"
        )
    return [ClientSplit(train, _deal_test(np.unique(labels.y[train]), decks, shares)) for train in trains]


def _deal_test(classes: np.ndarray, decks: Decks, shares: list[int]) -> np.ndarray:
    dealt = [decks.deal(int(label), shares[label]) for label in classes]
    return np.concatenate([np.empty(0, np.int64), *dealt])
