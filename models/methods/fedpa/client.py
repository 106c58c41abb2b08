"""The client half of FedPA: cross-entropy on samples and on generated features, and features near their prototypes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from models import seeding
from models.methods.api import ClientContext
from models.methods.fedavg.client import FedAvgClient
from models.methods.fedpa import Uplink, scheduled
from models.methods.fedpa.generator import Generator, draw, label_distribution
from models.methods.fedpa.losses import distances
from models.nets import flatten_buffers, flatten_parameters, load_flat, trained_parameters
from models.prototypes import LocalPrototypes, PrototypeTable
from models.spec import ConfigError
from wire.payload import Record

if TYPE_CHECKING:
    from models.nets import Net
    from models.training import Batch

_NOTHING = np.zeros(0, np.float32)


class FedPaClient(FedAvgClient):
    """Trains the model that came; before the first aggregate by cross-entropy alone."""

    def start(self, context: ClientContext) -> None:
        """Take up net and data.

        Raises:
            ConfigError: the net's head is not one weight and one bias.
        """
        super().start(context)
        self._classifier_at = _find_classifier(context.net)

    def receive(self, exchange: str, downlink: Any) -> None:
        """Install model, prototypes and generator."""
        super().receive(exchange, downlink)
        self._age = downlink.age
        self._prototypes = PrototypeTable(
            downlink.prototypes, downlink.classes, self.spec.num_classes, self.context.device
        )
        self._generator: Generator | None = None
        if downlink.generator_parameters.size:
            self._generator = Generator.of(self.spec, self.config).to(self.context.device).eval()
            load_flat(self._generator, downlink.generator_parameters, downlink.generator_buffers)
            self._distribution_C = label_distribution(downlink.label_counts, self.config.labels)

    def before_training(self, exchange: str, seed: int) -> None:
        """Begin the draws of this attempt."""
        self._random = seeding.generator(seed, "generated")

    def after_training(self) -> None:
        """Hold the generator no longer than that."""
        self._generator = None

    def loss(self, batch: Batch) -> torch.Tensor:
        """Return the sum of the three terms; those of weight 0 and those without anything to go by are left out."""
        config, head = self.config, self.context.net.head
        features_BD = self.context.net.features(batch.x)
        loss: torch.Tensor = cross_entropy(head(features_BD), batch.y)  # Eq. (9)
        if self._generator is not None:
            weight = scheduled(config.generated_weight, config.generated_floor, config.decay, self._age)
            generated_BD, labels_B = self._generate(self._generator, len(batch.y))
            loss = loss + weight * cross_entropy(head(generated_BD), labels_B)  # Eqs. (11), (12)
        if config.prototype_weight and len(self._prototypes.classes):
            weight = scheduled(config.prototype_weight, config.prototype_floor, config.decay, self._age)
            targets_BD, has_one_B = self._prototypes.targets(batch.y)
            apart_B = distances(features_BD, targets_BD, config.distance) * has_one_B
            loss = loss + weight * apart_B.sum() / len(batch.y)  # Eqs. (10), (12)
        return loss

    def uplink(self, exchange: str) -> Record:
        """Return the trained model, local prototypes and label counts; without a train sample nothing but counts."""
        context = self.context
        trained = len(context.train_y) > 0
        parameters = flatten_parameters(context.net) if trained else _NOTHING
        buffers = flatten_buffers(context.net) if trained else _NOTHING
        means = self._local_prototypes()
        label_counts = context.class_counts.astype(np.uint32)
        classes = means.classes.astype(np.uint16)
        return Uplink(parameters, buffers, means.prototypes_CD, classes, label_counts, self._classifier_at)

    def has_rule(self, rule: str) -> bool:
        """Say whether prototypes travel, for the rule that asks them."""
        return self.config.uses_prototypes or rule != "global_prototype"

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Predict by the global model's head, or the class of the nearest global prototype."""
        if rule != "global_prototype":
            return super().predict(rule, features_BD)
        return self._prototypes.nearest(features_BD)

    def _local_prototypes(self) -> LocalPrototypes:
        """Return the local prototypes, Eq. (2), or none if no term needs them."""
        if not self.config.uses_prototypes:
            none = np.zeros(0, np.int64)
            return LocalPrototypes(np.zeros((0, self.context.net.head.in_features), np.float32), none, none)
        return self.local_prototypes()

    def _generate(self, generator: Generator, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return so many features and their classes, drawn by the global label distribution."""
        order = draw(self._random, self._distribution_C, count, self.config)
        noise_BZ, labels_B = (tensor.to(self.context.device) for tensor in order)
        with torch.no_grad():
            return generator(noise_BZ, labels_B), labels_B


def _find_classifier(net: Net) -> int:
    """Return where the head's weight begins among the flat parameters, those that are trained.

    Raises:
        ConfigError: its bias does not come right behind.
    """
    begin = 0
    for parameter, following in pairwise(trained_parameters(net)):
        if parameter is net.head.weight and following is net.head.bias:
            return begin
        begin += parameter.numel()
    raise ConfigError("[model] expected a net whose head trains a weight and, right behind it, a bias; got one without")
