"""The Gaussians that a server half holds: the last one of each client and class."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from models.generative import GenerativePrototypes
from models.methods.api import Update


class Gaussian(NamedTuple):
    """Mean and variance, float32 [D], of the features of so many samples."""

    mean_D: np.ndarray
    variance_D: np.ndarray
    num: int


class GaussianTable:
    """Gaussians by client and class; those of old tasks stay."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._held: dict[tuple[str, int], Gaussian] = {}

    def put(self, client: str, label: int, gaussian: Gaussian) -> None:
        """Take one up in place of an earlier one of this client and class."""
        self._held[client, label] = gaussian

    def mixture(self, classes: Collection[int]) -> GenerativePrototypes | None:
        """Return those of these classes as one mixture, None if there are none."""
        held = [(label, each) for (_, label), each in sorted(self._held.items()) if label in classes]
        if not held:
            return None
        labels, gaussians = zip(*held, strict=True)
        means, variances, counts = zip(*gaussians, strict=True)
        return GenerativePrototypes(np.stack(means), np.stack(variances), np.array(labels), np.array(counts))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all as arrays; the clients stand as text, one a line."""
        held = sorted(self._held.items())
        rows = (len(held), self._width)
        return {
            "means": np.array([each.mean_D for _, each in held], np.float32).reshape(rows),
            "variances": np.array([each.variance_D for _, each in held], np.float32).reshape(rows),
            "counts": np.array([each.num for _, each in held], np.int64),
            "classes": np.array([label for (_, label), _ in held], np.int64),
            "clients": np.frombuffer("\n".join(client for (client, _), _ in held).encode(), np.uint8),
        }

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up what `arrays` returned; without any, hold nothing."""
        if not arrays:
            self._held = {}
            return
        clients = arrays["clients"].tobytes().decode().splitlines()
        labels, counts = arrays["classes"].tolist(), arrays["counts"].tolist()
        rows = zip(arrays["means"], arrays["variances"], counts, strict=True)
        keys = zip(clients, labels, strict=True)
        self._held = {key: Gaussian(*row) for key, row in zip(keys, rows, strict=True)}


def sent_gaussians(update: Update) -> Iterator[tuple[str, int, Gaussian]]:
    """Yield client, class and Gaussian for each that an update's record holds, copied so that the rest of it can go."""
    record: Any = update.record
    rows = zip(record.classes.tolist(), record.means, record.variances, record.counts.tolist(), strict=True)
    for label, mean, variance, count in rows:
        yield update.client, label, Gaussian(np.array(mean, np.float32), np.array(variance, np.float32), count)
