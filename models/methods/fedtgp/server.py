"""The server half of FedTGP: trains the global prototypes on what the clients upload."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from models import seeding
from models.methods.api import RoundFailedError, Server, Update
from models.methods.fedtgp import Downlink
from models.methods.fedtgp.nets import GlobalPrototypes, tgp_margin, train_prototypes
from models.nets import load_net_arrays, net_arrays
from models.robust import class_sums
from models.spec import RunSpec
from models.training import warm_up
from wire.payload import Record


class Uploads(NamedTuple):
    """The local prototypes of a round, float64 [B, D], and the class of each, int64 [B]."""

    prototypes: np.ndarray
    labels: np.ndarray

    @classmethod
    def of(cls, updates: Sequence[Update]) -> Uploads:
        """Return those of at least one update, in the order of the updates."""
        records = [update.record for update in updates]
        prototypes = np.concatenate([record.prototypes for record in records])
        labels = np.concatenate([record.classes for record in records])
        return cls(prototypes.astype(np.float64), labels.astype(np.int64))

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean of each class [C, D] and the ids of the classes, ascending."""
        classes, rows = np.unique(self.labels, return_inverse=True)
        sums_CD = np.zeros((len(classes), self.prototypes.shape[1]))
        np.add.at(sums_CD, rows, self.prototypes)
        return sums_CD / np.bincount(rows)[:, None], classes


class FedTgpServer(Server):
    """Holds the trainable prototypes of all classes, and which classes some client has uploaded."""

    _classes: np.ndarray

    def __init__(self, spec: RunSpec, config: Any) -> None:
        super().__init__(spec, config)
        self.load({})
        warm_up(self._net, spec.training)

    @property
    def prototype_dim(self) -> int:
        """The width of the trainable prototypes."""
        return self.spec.model.feature_dim

    def configure(self, round: int, exchange: str) -> Record:
        """Return the global prototypes of all classes."""
        return Downlink(self.global_prototypes(), self._classes)

    def global_prototypes(self) -> np.ndarray:
        """Return what the trainable prototypes are now, float32 [C, D]."""
        with torch.no_grad():
            made: np.ndarray = self._net().numpy()
        return made

    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Train the prototypes on this round's uploads."""
        came = list(updates)
        if not any(len(update.record.classes) for update in came):
            raise RoundFailedError(f"round {round}: none of {len(came)} updates has a prototype")
        uploads = self.prepare(Uploads.of(came), sum(update.num_train for update in came))
        uploads, told = self._centred(uploads)
        means_CD, classes = uploads.means()
        margin = tgp_margin(means_CD, self.config.margin_threshold)
        loss = self._train(round, exchange, uploads, margin)
        self._classes = np.union1d(self._classes, classes).astype(np.uint16)
        counted = {"num_updates": float(len(came)), "num_classes": float(len(classes))}
        return {**counted, **told, "margin": margin, "loss": loss}

    def prepare(self, uploads: Uploads, num_train: int) -> Uploads:
        """Return what the prototypes are trained on: the uplinks, here as they came, of clients with `num_train`."""
        return uploads

    def _centred(self, uploads: Uploads) -> tuple[Uploads, dict[str, float]]:
        """Return each upload replaced by the aggregate of its class, if that is not the mean, and what to tell."""
        if self.config.aggregation == "mean":
            return uploads, {}
        sums = class_sums(self.config.aggregation, self.spec.num_classes, self.prototype_dim)
        for prototype_D, label in zip(uploads.prototypes, uploads.labels, strict=True):
            sums.add(prototype_D[None], np.array([label]), np.ones(1))
        means_CD, classes = sums.means()
        return Uploads(means_CD[np.searchsorted(classes, uploads.labels)], uploads.labels), sums.metrics()

    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the trainable prototypes and the uploaded classes."""
        return {**net_arrays(self._net), "classes": self._classes}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up a state; before round 1 the prototypes are drawn from the run's seed, and no class is uploaded."""
        seeding.seed_torch(self.spec.seed, "server", "prototypes")
        self._net = GlobalPrototypes(self.spec.num_classes, self.prototype_dim)
        self._classes = arrays.get("classes", np.zeros(0, np.uint16))
        if arrays:
            load_net_arrays(self._net, {name: arrays[name] for name in net_arrays(self._net)})

    def _train(self, round: int, exchange: str, uploads: Uploads, margin: float) -> float:
        """Train a copy of the prototypes, which takes their place if all went well, and return the loss."""
        net = copy.deepcopy(self._net)
        shuffling = seeding.generator(self.spec.seed, "server", round, exchange, "shuffle")
        uploads_BD, labels_B = torch.from_numpy(uploads.prototypes).float(), torch.from_numpy(uploads.labels)
        loss = train_prototypes(net, uploads_BD, labels_B, margin, self.config, shuffling)
        if not all(tensor.isfinite().all() for tensor in net.parameters()):
            raise RoundFailedError(f"round {round}: the global prototypes diverged; lower [method] server_lr")
        self._net = net
        return loss
