"""The parent of client halves that numpy computes: their samples are a frozen backbone's features.

What torch does by itself stands here once: the gradient of cross-entropy through head and projection, the steps, and
the two rules that every net has. A method adds its own terms of the loss by their gradient in the features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from models.linear_rules import LinearRule, nearest_prototype
from models.methods.api import Client, ClientContext
from models.nets.affine import AffineNet
from models.optimizers import optimizer_of
from models.prototypes import LocalPrototypes, class_means
from models.steps import Progress, mean_loss, steps


class NumpyClient(Client):
    """A client half over an `AffineNet`."""

    net: AffineNet

    def start(self, context: ClientContext) -> None:
        """Take up net, data and constants."""
        super().start(context)
        self.net = context.net  # type: ignore[assignment]

    def feature_term(self, features_BD: np.ndarray, labels_B: np.ndarray) -> tuple[float, np.ndarray] | None:
        """Return what the loss of a batch has beside cross-entropy, and its gradient [B, D]; None for nothing."""
        return None

    def gradients(self, x_BW: np.ndarray, labels_B: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        """Return the loss of a batch, and its gradient by each parameter that is trained."""
        features_BD = self.net.features(x_BW)
        loss, by_features_BD, found = self.net.cross_entropy(features_BD, labels_B)
        term = self.feature_term(features_BD, labels_B)
        if term is not None:
            loss, by_features_BD = loss + term[0], by_features_BD + term[1]
        if self.net.trains_projection:
            found |= self.net.by_projection(x_BW, by_features_BD)
        return loss, {name: found[name] for name in self.net.trained}

    def local_train(self, exchange: str, seed: int, on_progress: Progress | None) -> float:
        """Train on the local samples and return the mean loss, as the shared loop over a torch net does."""
        self.before_training(exchange, seed)
        try:
            return self._train(seed, on_progress)
        finally:
            self.after_training()

    def _train(self, seed: int, on_progress: Progress | None) -> float:
        context, config = self.context, self.spec.training
        x_NW, labels_N = np.asarray(context.train_x), self.train_labels()
        optimizer = optimizer_of(config)
        rows_of_steps, total = steps(len(labels_N), config, seed), 0.0
        for done, rows in enumerate(rows_of_steps, start=1):
            loss, found = self.gradients(x_NW[rows], labels_N[rows])
            optimizer.step(self.net.parameters, _clipped(found, config.clip_norm))
            total += loss
            if on_progress is not None:
                on_progress(done, len(rows_of_steps))
        return mean_loss(context.client, total, len(rows_of_steps))

    def predictions(self, x: Any, rules: Sequence[str]) -> dict[str, np.ndarray]:
        """Return what each of these rules takes each sample for: class ids [B], -1 where it cannot say."""
        features_BD = self.net.features(x)
        return {rule: self._predict(rule, features_BD) for rule in rules}

    def _predict(self, rule: str, features_BD: Any) -> np.ndarray:
        if rule == "head":
            weight_CD, bias_C = (array[: self.context.num_seen] for array in self.head_arrays())
            return LinearRule(weight_CD, bias_C, np.arange(len(bias_C))).predict(features_BD)
        if rule == "local_prototype":
            means = self.local_prototypes()
            return nearest_prototype(means.prototypes_CD, means.classes).predict(features_BD)
        return np.asarray(self.predict(rule, features_BD))

    def local_prototypes(self) -> LocalPrototypes:
        """Return the mean feature of each class that the client holds."""
        return class_means(self.train_features(), self.train_labels(), self.spec.num_classes)

    def train_features(self) -> np.ndarray:
        """Return the features of the train samples with the net as it is, float32 [N, D]."""
        return self.net.features(np.asarray(self.context.train_x))

    def train_labels(self) -> np.ndarray:
        """Return the classes of the train samples, [N]."""
        return np.asarray(self.context.train_y)

    def head_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return weights [C, D] and biases [C] of the head."""
        return self.net.parameters["head.weight"], self.net.parameters["head.bias"]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state to checkpoint: what is trained, and what a subclass adds."""
        return self.net.arrays()

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up a state that `arrays` returned."""
        self.net.load(arrays)


def _clipped(gradients: dict[str, np.ndarray], max_norm: float) -> dict[str, np.ndarray]:
    """Return gradients whose common norm is at most `max_norm`, or as they are for 0."""
    if not max_norm:
        return gradients
    norm = np.sqrt(sum(float(np.square(gradient, dtype=np.float64).sum()) for gradient in gradients.values()))
    factor = np.float32(min(1.0, max_norm / (norm + 1e-6)))
    return {name: gradient * factor for name, gradient in gradients.items()}
