"""What noise has cost: the (epsilon, delta) of each client's train samples, by Google's accounting library."""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from coordinator.metrics.tally import ClientLine
from models.spec import ConfigError, PrivacyConfig

EXTRA = "pip install 'protoedge[privacy]'"

LEAST_NOISE, MOST_NOISE = 0.01, 10_000.0
"""With less nothing is hidden (an epsilon of many thousands), and with more nothing is told."""


def require_accounting(privacy: PrivacyConfig) -> None:
    """Refuse to start a run whose privacy could not be accounted for.

    Raises:
        ConfigError: noise is wanted, and there is too little or too much, or the library is not installed.
    """
    if privacy.adds_noise and not LEAST_NOISE <= privacy.noise_multiplier <= MOST_NOISE:
        expected = f"expected 0, or {LEAST_NOISE:g} to {MOST_NOISE:g}"
        raise ConfigError(f"[privacy] noise_multiplier = {privacy.noise_multiplier:g}: {expected}")
    if privacy.adds_noise and find_spec("dp_accounting") is None:
        expected = f"expected dp-accounting, which says what it comes to: {EXTRA}"
        raise ConfigError(f"[privacy] noise_multiplier = {privacy.noise_multiplier:g}: {expected}")


class Releases:
    """In which exchanges each client was asked for something of its samples."""

    def __init__(self) -> None:
        self._asked: dict[str, set[tuple[int, int]]] = defaultdict(set)

    def book(self, line: ClientLine) -> None:
        """Add a client's exchange of a round."""
        self._asked[line.client].add((line.round, line.exchange_index))

    def at_most(self, clients: Iterable[str], unsure: Collection[int], num_exchanges: int) -> dict[str, int]:
        """Return how often, at most, each client has told something: at join, and in each exchange.

        Of the `unsure` rounds all exchanges count, as what was asked in them may be in no line.
        """
        return {
            client: 1 + len(unsure) * num_exchanges + sum(round not in unsure for round, _ in self._asked[client])
            for client in clients
        }


def privacy_summary(privacy: PrivacyConfig, num_releases: Mapping[str, int], mode: str) -> dict[str, Any]:
    """Return what a summary tells of the noise, if there is any.

    Args:
        privacy: the run's settings.
        num_releases: by client how often it told something of its samples, at most.
        mode: `loopback`, `simulate` or `serve`.
    """
    if not privacy.adds_noise:
        return {}
    clients = {
        client: {"num_releases": number, "epsilon": epsilon(privacy.noise_multiplier, privacy.delta, number)}
        for client, number in num_releases.items()
    }
    secret = "each client's own" if mode == "serve" else "the run's seed, so that nothing is hidden from who knows it"
    told = {"noise_multiplier": privacy.noise_multiplier, "clip_norm": privacy.clip_norm, "delta": privacy.delta}
    return {"privacy": {**told, "secret": secret, "clients": clients}}


@functools.cache
def epsilon(noise_multiplier: float, delta: float, num_releases: int) -> float | None:
    """Return the epsilon of so many Gaussian releases, exactly; None where the library is not installed."""
    try:
        from dp_accounting import get_epsilon_gaussian
    except ImportError:
        return None
    return float(get_epsilon_gaussian(noise_multiplier / math.sqrt(num_releases), delta))
