"""The client half of FedNova: trains as in federated averaging and sends how far it went, for each step."""

from __future__ import annotations

import numpy as np

from models.methods.fedavg import Downlink
from models.methods.fedavg.client import FedAvgClient
from models.methods.fednova import Uplink, accumulated_steps
from models.nets import flatten_buffers, flatten_parameters
from wire.payload import Record

_NOTHING = np.zeros(0, np.float32)


class FedNovaClient(FedAvgClient):
    """Sends its normalised update, and in the first round also where it started."""

    def receive(self, exchange: str, downlink: Downlink) -> None:
        """Install the global model; before there is one keep the initial model."""
        super().receive(exchange, downlink)
        self._is_known = downlink.parameters.size > 0

    def before_training(self, exchange: str, seed: int) -> None:
        """Remember where training starts."""
        self._start = flatten_parameters(self.context.net)

    def uplink(self, exchange: str) -> Record:
        """Return the normalised update, or nothing of weight 0 if there is no train sample."""
        num_train = np.array([len(self.context.train_y)], np.uint32)
        if not num_train[0]:
            return Uplink(_NOTHING, _NOTHING, _NOTHING, num_train)
        moved = self._start - flatten_parameters(self.context.net)
        steps = accumulated_steps(int(num_train[0]), self.spec.training)
        direction = (moved / max(steps, 1.0)).astype(np.float32)  # Eq. (2); without steps nothing has moved
        start = _NOTHING if self._is_known else self._start
        return Uplink(direction, flatten_buffers(self.context.net), start, num_train)
