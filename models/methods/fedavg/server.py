"""The server half of federated averaging: a running weighted mean of models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from models.methods.api import RoundFailedError, Server, Update
from models.methods.fedavg import Downlink
from models.prototypes import WeightedMean
from models.robust import weighted_mean
from models.spec import RunSpec
from wire.payload import Record

_NOTHING = np.zeros(0, np.float32)


class FedAvgServer(Server):
    """Holds one model, as flat arrays; with `mean`, memory does not grow with the number of clients."""

    def __init__(self, spec: RunSpec, config: Any) -> None:
        super().__init__(spec, config)
        self.load({})

    def configure(self, round: int, exchange: str) -> Record:
        """Return the model, empty before the first average."""
        return Downlink(self._parameters, self._buffers)

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Average the models of all clients that have trained, by their train samples."""
        parameters, buffers = (weighted_mean(self.config.aggregation) for _ in range(2))
        num_updates = 0
        for update in updates:
            num_updates += 1
            weight = int(update.record.num_train[0])
            if weight:
                add_named(parameters, update.client, "parameters", update.record.parameters, weight)
                add_named(buffers, update.client, "buffers", update.record.buffers, weight)
        if not parameters.weight:
            raise RoundFailedError(f"round {round}: none of {num_updates} updates has a train sample")
        self._parameters = parameters.mean().astype(np.float32)  # Algorithm 1: w <- sum_k n_k / n * w_k
        self._buffers = buffers.mean().astype(np.float32)
        counted = {"num_updates": float(num_updates), "num_train": float(parameters.weight)}
        return {**counted, **parameters.metrics()}

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the model."""
        return {"parameters": self._parameters, "buffers": self._buffers}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up a model."""
        self._parameters = arrays.get("parameters", _NOTHING)
        self._buffers = arrays.get("buffers", _NOTHING)


def add_named(mean: WeightedMean, client: str, what: str, array: np.ndarray, weight: int) -> None:
    """Take one client's array into a mean.

    Raises:
        RoundFailedError: its size differs from the other clients'; the text names the client and the array.
    """
    try:
        mean.add(array, weight)
    except ValueError as error:
        raise RoundFailedError(f"client {client}: {what} differ from the other clients': {error}") from None
