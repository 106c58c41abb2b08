"""The server half of FedNova: the global model goes along the mean direction, as far as the clients went on average."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from models.methods.api import RoundFailedError, Update, expect_finite
from models.methods.fedavg.server import FedAvgServer, add_named
from models.methods.fednova import accumulated_steps
from models.prototypes import WeightedMean


class FedNovaServer(FedAvgServer):
    """Holds one model, as flat arrays; memory does not grow with the number of clients."""

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Move the model by the updates of all clients that have trained, weighted by their train samples."""
        names = ("direction", "buffers", "start")
        means, steps = {name: WeightedMean() for name in names}, WeightedMean()
        num_updates = 0
        for update in updates:
            num_updates += 1
            weight = int(update.record.num_train[0])
            if weight:
                for name in names:
                    add_named(means[name], update.client, name, getattr(update.record, name), weight)
                steps.add(np.array(accumulated_steps(weight, self.spec.training)), weight)
        if not steps.weight:
            raise RoundFailedError(f"round {round}: none of {num_updates} updates has a train sample")
        start = self._parameters if self._parameters.size else means["start"].mean()
        effective_steps = float(steps.mean())  # Eq. (3)
        moved = start - effective_steps * means["direction"].mean()  # Eq. (4)
        self._parameters = expect_finite(moved, round, "the model", "[training] lr")
        self._buffers = means["buffers"].mean().astype(np.float32)
        return {"num_updates": float(num_updates), "num_train": steps.weight, "effective_steps": effective_steps}
