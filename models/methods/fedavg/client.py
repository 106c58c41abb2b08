"""The client half of federated averaging."""

from __future__ import annotations

import numpy as np
import torch

from models.methods.api import Client
from models.methods.fedavg import Downlink, Uplink
from models.nets import flatten_buffers, flatten_parameters, load_flat
from wire.payload import Record


class FedAvgClient(Client):
    """Trains the model that came and sends it back whole."""

    def receive(self, exchange: str, downlink: Downlink) -> None:
        """Install the averaged model; before the first average keep the initial one."""
        if downlink.parameters.size:
            load_flat(self.context.net, downlink.parameters, downlink.buffers)

    def uplink(self, exchange: str) -> Record:
        """Return the trained model, or nothing of weight 0 if there is no train sample."""
        num_train = np.array([len(self.context.train_y)], np.uint32)
        if not num_train[0]:
            return Uplink(np.zeros(0, np.float32), np.zeros(0, np.float32), num_train)
        return Uplink(flatten_parameters(self.context.net), flatten_buffers(self.context.net), num_train)

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Predict by the averaged model's head, which is the net's own once it is installed."""
        if rule != "global_head":
            return super().predict(rule, features_BD)
        return self.predict_by_head(features_BD)
