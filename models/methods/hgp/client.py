"""The client half of HGP: prompt and head by the classes of the task, then a Gaussian of each class's features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from models.checkpoint import state_hash
from models.generative import ClassGaussians
from models.methods.api import Client, ClientContext
from models.methods.batching import batchable
from models.methods.hgp import Downlink, Uplink
from models.methods.hgp.nets import Body, PromptedVit
from models.nets import count_parameters, flatten_buffers, flatten_parameters, floor_variances, load_flat
from models.nets.frozen_backbone import check_backbone, weights_digest
from wire.payload import Record, short_digest

if TYPE_CHECKING:
    from models.training import Batch

_NOTHING = np.zeros(0, np.float32)


class HgpClient(Client):
    """Holds nothing of its own across rounds: all that it trains comes with the next downlink."""

    def start(self, context: ClientContext) -> None:
        """Take up net, data and the backbone's digest.

        Raises:
            ConfigError: this client's backbone is another one.
        """
        super().start(context)
        self._body = Body(context.net)
        self._constant = context.constants["backbone"]
        if isinstance(context.net, PromptedVit):
            check_backbone(
                context.client, context.constants, weights_digest(self.spec.model.weights), "[model] weights"
            )

    def receive(self, exchange: str, downlink: Downlink) -> None:
        """Install the averaged prompt and the head's rows; before the first average keep the initial ones."""
        if not downlink.parameters.size:
            return
        net = self.context.net
        load_flat(self._body, downlink.parameters, downlink.buffers)
        floor_variances(net)
        rows = torch.zeros(net.head.out_features, net.head.in_features + 1)
        rows[: len(downlink.head)] = torch.from_numpy(np.array(downlink.head, np.float32))
        with torch.no_grad():
            net.head.weight.copy_(rows[:, :-1])
            net.head.bias.copy_(rows[:, -1])

    @batchable()
    def loss(self, batch: Batch) -> torch.Tensor:
        """Return cross-entropy over the current task's columns."""
        classes = self.context.classes
        logits_BC = self.context.net(batch.x)[:, classes.start : classes.stop]
        return cross_entropy(logits_BC, batch.y - classes.start)

    def uplink(self, exchange: str) -> Record:
        """Return what was trained, and Gaussians of this client's own features."""
        context = self.context
        num_train = np.array([len(context.train_y)], np.uint32)
        digest = short_digest(state_hash(self._constant))
        if not num_train[0]:
            width = context.net.head.in_features
            head, none_CD = np.zeros((0, width + 1), np.float32), np.zeros((0, width), np.float32)
            counts, classes = np.zeros(0, np.uint32), np.zeros(0, np.uint16)
            return Uplink(_NOTHING, _NOTHING, head, num_train, none_CD, none_CD, counts, classes, digest)
        gaussians = ClassGaussians.of_features(self.train_features(), self.train_labels())
        return Uplink(
            flatten_parameters(self._body),
            flatten_buffers(self._body),
            self._task_rows(),
            num_train,
            gaussians.means_CD,
            gaussians.variances_CD,
            gaussians.counts.astype(np.uint32),
            gaussians.classes.astype(np.uint16),
            digest,
        )

    def dims(self) -> Mapping[str, int]:
        """Return the size of all that is trained but for the head."""
        return {"Q": count_parameters(self._body)}

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Predict by the rebalanced head, which is the net's own once it is installed."""
        if rule != "global_head":
            return super().predict(rule, features_BD)
        return self.predict_by_head(features_BD)

    def _task_rows(self) -> np.ndarray:
        head, classes = self.context.net.head, self.context.classes
        rows = torch.cat([head.weight, head.bias[:, None]], dim=1)[classes.start : classes.stop]
        return rows.detach().cpu().numpy().copy()
