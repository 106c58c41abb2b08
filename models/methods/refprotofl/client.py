"""The client half of RefProtoFL: prototypes before training, alignment during it, the most changed entries after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from models.data import scaled
from models.methods.api import Client, ClientContext
from models.methods.batching import batchable
from models.methods.refprotofl import AdapterUp, PrototypesUp, adapter_size, initial_adapter
from models.methods.refprotofl.nets import AdaptedNet
from models.nets import flatten_parameters, load_flat
from models.prototypes import PrototypeTable, local_prototypes
from models.spec import ConfigError, RunSpec
from wire.payload import Record

if TYPE_CHECKING:
    from models.training import Batch

_NOTHING = np.zeros(0, np.float32)


class RefProtoFLClient(Client):
    """Trains backbone and adapter; a class without an anchor has no alignment term."""

    def __init__(self, spec: RunSpec, config: Any) -> None:
        super().__init__(spec, config)
        self._size = adapter_size(config, spec.model.feature_dim, spec.num_classes)
        self._num_sent = config.num_sent(self._size)

    def start(self, context: ClientContext) -> None:
        """Take up net, data and the public samples, with the run's first adapter; no class has an anchor yet.

        Raises:
            ConfigError: the public samples do not fit the label map or the client's own.
        """
        super().start(context)
        nothing = np.zeros((0, *context.train_x.shape[1:]), np.float32)
        public = context.constants.get("public", {"x": nothing, "y": np.zeros(0, np.uint16)})
        self._public_x, self._public_y = public["x"], public["y"].astype(np.int64)
        _check_public(context, self._public_x, self._public_y, self.spec.classes)
        self._install_adapter(_NOTHING)
        self._install_anchors(np.zeros((0, self.config.adapter_dim), np.float32), np.zeros(0, np.uint16))

    def receive(self, exchange: str, downlink: Any) -> None:
        """Install the global adapter, or the anchors."""
        if exchange == "prototypes":
            self._install_adapter(downlink.adapter)
        else:
            self._global_adapter = flatten_parameters(self._net.adapter)
            self._install_anchors(downlink.anchors, downlink.classes)

    @batchable()
    def loss(self, batch: Batch) -> torch.Tensor:
        """Return cross-entropy plus the weighted distance to the anchors, both means over the batch."""
        embeddings_BM = self._net.features(batch.x)
        loss: torch.Tensor = cross_entropy(self._net.head(embeddings_BM), batch.y)  # Eq. (18)
        if not len(self._anchors.classes):
            return loss
        anchors_BM, has_one_B = self._anchors.targets(batch.y)
        distance = ((embeddings_BM - anchors_BM).square().sum(dim=1) * has_one_B).sum() / len(batch.y)  # Eq. (17)
        total: torch.Tensor = loss + self.config.anchor_weight * distance  # Eq. (19)
        return total

    def uplink(self, exchange: str) -> Record:
        """Return prototypes, or what changed most in the adapter; of a client without train samples nothing."""
        return self._prototypes() if exchange == "prototypes" else self._adapter_entries()

    def dims(self) -> Mapping[str, int]:
        """Return the size of the adapter."""
        return {"A": self._size}

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Predict by the head of the global adapter, which is the net's own once it is installed."""
        if rule != "global_adapter":
            return super().predict(rule, features_BD)
        return self.predict_by_head(features_BD)

    @property
    def _net(self) -> AdaptedNet:
        return cast("AdaptedNet", self.context.net)

    def _prototypes(self) -> PrototypesUp:
        context, num_classes = self.context, self.spec.num_classes
        use = slice(None) if self.config.aligns and len(context.train_y) else slice(0)
        public_x = torch.tensor(
            scaled(self._public_x[use], self.spec.data.mean, self.spec.data.std), device=context.device
        )
        public = local_prototypes(self._net, public_x, torch.from_numpy(self._public_y[use]), num_classes)  # Eq. (10)
        x, y = context.train_x[use], context.train_y[use]
        lacks_public = y >= self.spec.data.num_public_classes  # Eq. (12)
        local = local_prototypes(self._net, x[lacks_public], y[lacks_public], num_classes)  # Eq. (11)
        counts, classes = local.counts.astype(np.uint32), local.classes.astype(np.uint16)
        return PrototypesUp(public.prototypes_CD, local.prototypes_CD, counts, classes)

    def _adapter_entries(self) -> AdapterUp:
        num_train = np.array([len(self.context.train_y)], np.uint32)
        if not num_train[0]:
            return AdapterUp(np.zeros(0, np.int64), _NOTHING, num_train)
        adapter = flatten_parameters(self._net.adapter)
        update = adapter - self._global_adapter
        positions = most_changed(update, self._num_sent)
        sent = update if self.config.payload == "delta" else adapter
        return AdapterUp(positions, sent[positions], num_train)

    def _install_adapter(self, adapter: np.ndarray) -> None:
        """Have the net go on from this adapter; an empty one stands for the run's first."""
        held = adapter if adapter.size else initial_adapter(self.spec, self.config)
        load_flat(self._net.adapter, held, _NOTHING)

    def _install_anchors(self, anchors_CM: np.ndarray, classes: np.ndarray) -> None:
        self._anchors = PrototypeTable(anchors_CM, classes, self.spec.num_classes, self.context.device)


def most_changed(update: np.ndarray, count: int) -> np.ndarray:
    """Return the positions, int64 [count] and ascending, of the largest magnitudes; of equal ones the first."""
    magnitudes = np.abs(update)  # Eq. (3)
    largest = np.argsort(-magnitudes, kind="stable")[:count]  # Eq. (4)
    return np.sort(largest)


def _check_public(context: ClientContext, x: np.ndarray, y: np.ndarray, classes: list[str]) -> None:
    where = f"client {context.client}: public data"
    own_shape = list(context.train_x.shape[1:])
    if list(x.shape[1:]) != own_shape or len(x) != len(y):
        raise ConfigError(f"{where}: expected samples of shape {own_shape} with a label each, got {x.shape}, {y.shape}")
    if y.max(initial=0) >= len(classes):
        raise ConfigError(f"{where}: label {y.max()} is outside the label map 0..{len(classes) - 1} {classes[:20]}")
