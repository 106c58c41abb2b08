"""Each class shared out by Dirichlet proportions, with a cap on what a client may hold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from models.partition import Labels, require_enough
from models.spec import ConfigError, DataConfig

_FIXED_WORK = 500
"""What a class costs in a draw beside its clients, in clients."""

_MAX_WORK = 10_000_000
"""Classes x clients over all draws: 1 s at most on a desktop, well under 10 s on a small board."""


def dirichlet(labels: Labels, config: DataConfig, random: np.random.Generator) -> list[np.ndarray]:
    """Share out each class by Dirichlet(alpha) proportions, as the PFLlib family of experiments does.

    A client that already holds its even share gets nothing more while others do not; all is drawn anew until every
    client has `min_size` rows. Lower `alpha` is more uneven. The number of draws is bounded, by a few seconds' work.

    Raises:
        ConfigError: no draw gave every client `min_size` rows, or none can.
    """
    class_sizes = np.bincount(labels.spread)
    even_share = len(labels.spread) / config.num_clients
    cuts = draw_cuts(class_sizes, even_share, config, random, f"alpha = {config.alpha}")
    return deal(labels.spread, cuts, random)


def sample_dirichlet(labels: Labels, config: DataConfig, random: np.random.Generator) -> list[np.ndarray]:
    """Give each sample to a client drawn by its class's own Dirichlet(alpha) shares, as HGP's experiments do.

    No client is capped; all is drawn anew until every client has `min_size` rows.

    Raises:
        ConfigError: no draw gave every client `min_size` rows, or none can.
    """
    class_sizes = np.bincount(labels.spread)

    def draw() -> np.ndarray:
        shares = [_draw_shares(config, random) for _ in class_sizes]
        counts = [random.multinomial(size, each / each.sum()) for size, each in zip(class_sizes, shares, strict=True)]
        return np.cumsum(counts, axis=1)

    return deal(labels.spread, _first_large_enough(draw, class_sizes, config, f"alpha = {config.alpha}"), random)


def draw_cuts(
    class_sizes: np.ndarray, cap: float, config: DataConfig, random: np.random.Generator, settings: str
) -> np.ndarray:
    """Draw where each class is cut, int64 [classes, clients]: client i ends at `cuts[class, i]`.

    Args:
        class_sizes: how many rows of each class there are to give.
        cap: a client that holds so many rows gets no more while others do not.
        config: alpha, number and minimum of clients.
        random: the source of the draws.
        settings: what an error calls the settings that the draws depend on.

    Raises:
        ConfigError: no draw gave every client `min_size` rows, or none can.
    """
    return _first_large_enough(lambda: _draw_once(class_sizes, cap, config, random), class_sizes, config, settings)


def _first_large_enough(
    draw: Callable[[], np.ndarray], class_sizes: np.ndarray, config: DataConfig, settings: str
) -> np.ndarray:
    """Return the first cuts that `draw` makes with `min_size` rows for every client; the arguments as of `draw_cuts`.

    Raises:
        ConfigError: there are none, or none can be.
    """
    num_rows = int(class_sizes.sum())
    require_enough(num_rows, config, settings)
    if not num_rows:
        raise ConfigError(f"[data] partition = {config.partition!r} needs samples, there are 0")
    max_draws = 1 + _MAX_WORK // (len(class_sizes) * (config.num_clients + _FIXED_WORK))
    for _ in range(max_draws):
        cuts = draw()
        if np.diff(cuts, prepend=0, axis=1).sum(axis=0).min() >= config.min_size:
            return cuts
    raise ConfigError(
        f"[data] no Dirichlet draw of {max_draws} gave each client enough: partition = {config.partition!r}, "
        f"{settings}, num_clients = {config.num_clients}, min_size = {config.min_size}, {num_rows} samples;"
        " raise alpha, or lower min_size or num_clients"
    )


def deal(labels: np.ndarray, cuts: np.ndarray, random: np.random.Generator) -> list[np.ndarray]:
    """Shuffle each class and hand its pieces out."""
    pieces: list[list[np.ndarray]] = [[] for _ in range(cuts.shape[1])]
    for label, ends in enumerate(cuts):
        rows = random.permutation(np.flatnonzero(labels == label))[: ends[-1]]
        for client, piece in enumerate(np.split(rows, ends[:-1])):
            pieces[client].append(piece)
    return [np.concatenate(rows) for rows in pieces]


def _draw_once(class_sizes: np.ndarray, cap: float, config: DataConfig, random: np.random.Generator) -> np.ndarray:
    held = np.zeros(config.num_clients)
    cuts = np.empty((len(class_sizes), config.num_clients), np.int64)
    for label, size in enumerate(class_sizes):
        shares = _draw_shares(config, random)
        open_shares = shares * (held < cap)
        shares = open_shares if open_shares.sum() > 0 else shares
        cuts[label] = np.floor(np.cumsum(shares / shares.sum()) * size)
        cuts[label, -1] = size
        held += np.diff(cuts[label], prepend=0)
    return cuts


def _draw_shares(config: DataConfig, random: np.random.Generator) -> np.ndarray:
    """Draw proportions; where alpha is too large for a draw, they are even."""
    shares = random.dirichlet(np.full(config.num_clients, config.alpha))
    return shares if shares.sum() > 0 else np.ones(config.num_clients)
