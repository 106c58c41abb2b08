"""The client half of GFPL: two classifiers, trained on its own samples and then on samples of everyone's mixtures."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import torch
from torch.nn.functional import cross_entropy, normalize

from models import seeding
from models.methods.api import Client, ClientContext
from models.methods.batching import batchable
from models.methods.gfpl import Mixture, Uplink, flattened
from models.methods.gfpl.mixtures import draw, fit_classes
from models.methods.gfpl.nets import Classifiers
from models.nets.net import feature_batches
from models.training import train
from wire.payload import Nothing, Record

if TYPE_CHECKING:
    from models.steps import Progress
    from models.training import Batch

_OWN = "own_"


class GfplClient(Client):
    """Keeps nothing but its net from one exchange to the next."""

    def start(self, context: ClientContext) -> None:
        """Take up net, data and the vectors of the fixed classifier."""
        super().start(context)
        self._interacts = False
        self._seed = 0
        self._global: dict[int, Mixture] = {}
        if self.config.dual_classifier:
            self._frame_EC = torch.tensor(context.constants["etf"]["vectors"]).float().to(context.device)

    def receive(self, exchange: str, downlink: Any) -> None:
        """Take note whether mixtures are due, or take up those of all clients."""
        if exchange == "mixtures":
            self._interacts = downlink.interacts
        else:
            self._global = downlink.by_class()

    @batchable()
    def loss(self, batch: Batch) -> torch.Tensor:
        """Return cross-entropy of the head and, weighted, how far projections are from the vectors of their classes."""
        features_BD = self.context.net.features(batch.x)
        loss: torch.Tensor = cross_entropy(self.context.net.head(features_BD), batch.y)
        if not self.config.dual_classifier or self.config.regularizer_weight == 0:
            return loss
        regression = dot_regression(self._projected(features_BD), self._frame_EC, batch.y)
        total: torch.Tensor = self.config.regularizer_weight * regression + loss  # Eq. (13)
        return total

    def local_train(self, exchange: str, seed: int, on_progress: Progress | None) -> float:
        """Train on the client's own samples; once mixtures have come, the classifiers alone on samples of those."""
        if exchange == "mixtures":
            return super().local_train(exchange, seed, on_progress)
        return self._retrain(seed, on_progress) if self._global else 0.0

    def before_training(self, exchange: str, seed: int) -> None:
        """Keep the seed for fitting mixtures."""
        self._seed = seed

    def can_batch(self, exchange: str) -> bool:
        """Say that training on the client's own samples is the shared loop."""
        return exchange == "mixtures"

    def uplink(self, exchange: str) -> Record:
        """Return the mixtures, if they are due."""
        if exchange != "mixtures":
            return Nothing()
        context, mixtures = self.context, dict[int, Mixture]()
        if self._interacts and len(context.train_y):
            features_BD = torch.cat(list(feature_batches(context.net, context.train_x)))
            mixtures = fit_classes(features_BD, context.train_y, self.config, self._seed)
        held = context.class_counts[list(mixtures)].astype(np.uint32)
        return Uplink(**flattened(mixtures, self.spec.model.feature_dim), counts=held)

    def has_rule(self, rule: str) -> bool:
        """Say whether the fixed classifier is there, for the rules that ask it."""
        return self.config.dual_classifier or "etf" not in rule

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Predict by head, fixed classifier or the sum of both, over all classes seen so far or the client's own."""
        num_seen = self.context.num_seen
        scores_BC = self._scores(rule.removeprefix(_OWN), features_BD)[:, :num_seen]
        if rule.startswith(_OWN):
            held = torch.from_numpy(self.context.class_counts[:num_seen] > 0).to(scores_BC.device)
            scores_BC = scores_BC.masked_fill(~held, -torch.inf)
        best = scores_BC.max(dim=1)
        return best.indices.masked_fill(best.values == -torch.inf, -1)

    def _scores(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Return the score [B, C] of each class, minus infinity where the rule cannot say."""
        logits_BC: torch.Tensor = self.context.net.head(features_BD)
        if rule == "head":
            return logits_BC
        if rule not in ("etf", "head_etf"):
            return super().predict(rule, features_BD)
        cosines_BC = self._projected(features_BD) @ self._frame_EC
        return cosines_BC if rule == "etf" else logits_BC + cosines_BC

    def _projected(self, features_BD: torch.Tensor) -> torch.Tensor:
        projected_BE = self.context.net.get_submodule("projection")(features_BD)
        directions_BE: torch.Tensor = normalize(projected_BE, dim=1)  # Eq. (11)
        return directions_BE

    def _retrain(self, seed: int, on_progress: Progress | None) -> float:
        """Train projection and head for one pass over pseudo-features; the extractor has no part in it: Eq. (14)."""
        x, y = draw(self._global, self.config.samples_per_class, seeding.generator(seed, "pseudo-features"))
        if self._clamps():
            x = np.maximum(x, 0)
        classifiers, device = copy(self), self.context.device
        classifiers.context = replace(
            self.context,
            net=Classifiers(self.context.net),
            train_x=torch.from_numpy(x).to(device),
            train_y=torch.from_numpy(y).to(device),
        )
        once = msgspec.structs.replace(self.spec.training, local_epochs=1, local_steps=0)
        return train(classifiers, once, seed, on_progress)

    def _clamps(self) -> bool:
        """Whether negative samples become 0: where no mean is negative, features are not."""
        if self.config.clamp_samples == "auto":
            return all((mixture.means >= 0).all() for mixture in self._global.values())
        return bool(self.config.clamp_samples)


def dot_regression(directions_BE: torch.Tensor, frame_EC: torch.Tensor, labels_B: torch.Tensor) -> torch.Tensor:
    """Return the mean of half the square of h . z - 1, with z the vector of the sample's class."""
    cosines_B = (directions_BE * frame_EC.T[labels_B]).sum(dim=1)
    return (cosines_B - 1).square().mean() / 2  # Eq. (12)
