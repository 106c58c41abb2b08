"""How the server half trains the generator, with everything that goes on from round to round."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.utils import clip_grad_norm_

from models import seeding
from models.methods.api import RoundFailedError
from models.methods.fedpa import Config, scheduled
from models.methods.fedpa.generator import Generator, draw, draw_noise
from models.methods.fedpa.losses import Classifiers, class_distances, distances, diversity, fidelity
from models.spec import RunSpec

_NUM_DESCRIBED = 1024
"""How many features `describe` looks at, the same number of each class and two at least."""


class Teachers(NamedTuple):
    """What a round's clients teach the generator."""

    classifiers: Classifiers
    prototypes_CD: torch.Tensor
    """Global prototypes, one row for each class of the label map; rows of unknown classes have no meaning."""
    distribution_C: np.ndarray
    """How likely each class is generated: not at all if no client of the round holds it."""


class GeneratorTraining:
    """A generator and its optimizer, on the CPU."""

    def __init__(self, spec: RunSpec, config: Config) -> None:
        self._spec = spec
        self._config = config
        seeding.seed_torch(spec.seed, "server", "generator")
        self.generator = Generator.of(spec, config)
        self._optimizer = torch.optim.Adam(
            self.generator.parameters(), lr=config.generator_lr, weight_decay=config.generator_weight_decay
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Return copies of the generator's parameters and buffers, and of the optimizer's state."""
        named = {f"generator.{name}": tensor for name, tensor in self.generator.state_dict().items()}
        for index, state in self._optimizer.state_dict()["state"].items():
            named |= {f"optimizer.{index}.{name}": tensor for name, tensor in state.items()}
        return {name: tensor.numpy().copy() for name, tensor in named.items()}

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up what `arrays` returned."""
        weights: dict[str, torch.Tensor] = {}
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for name, array in arrays.items():
            owner, _, key = name.partition(".")
            if owner == "generator":
                weights[key] = torch.from_numpy(np.array(array))
            elif owner == "optimizer":
                index, _, field = key.partition(".")
                moments.setdefault(int(index), {})[field] = torch.from_numpy(np.array(array))
        self.generator.load_state_dict(weights)
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": moments, "param_groups": groups})

    def train(self, teachers: Teachers, round: int, age: int) -> dict[str, float]:
        """Train the generator after `age` aggregates and return the mean loss of each term.

        Raises:
            RoundFailedError: it has diverged; generator and optimizer are as they were before.
        """
        before = self.arrays()
        random = seeding.generator(self._spec.seed, "server", round, "generator")
        for group in self._optimizer.param_groups:
            group["lr"] = self._config.generator_lr * self._config.generator_lr_decay**age
        self.generator.train()
        steps = [self._step(teachers, random, age) for _ in range(self._config.generator_steps)]
        if not all(bool(tensor.isfinite().all()) for tensor in self.generator.state_dict().values()):
            self.load(before)
            raise RoundFailedError(f"round {round}: the generator diverged; set clip_norm or lower generator_lr")
        return {name: fmean(step[name] for step in steps) for name in steps[0]} if steps else {}

    def describe(self, classes: np.ndarray) -> dict[str, float]:
        """Return the mean norm of generated features of these classes and how far apart they lie, for equal noise."""
        random = seeding.generator(self._spec.seed, "server", "described")
        labels_B = torch.from_numpy(classes.repeat(max(2, _NUM_DESCRIBED // len(classes))))
        self.generator.eval()
        with torch.no_grad():
            features_BD = self.generator(draw_noise(random, len(labels_B), self._config), labels_B)
        intra, inter = class_distances(features_BD, labels_B)
        norm = torch.linalg.vector_norm(features_BD, dim=1).mean().item()
        return {"generated_norm": norm, "intra_class_distance": intra, "inter_class_distance": inter}

    def _step(self, teachers: Teachers, random: np.random.Generator, age: int) -> dict[str, float]:
        config = self._config
        order = draw(random, teachers.distribution_C, config.generator_batch_size, config)
        features_BD = self.generator(*order)
        losses = self._losses(teachers, features_BD, *order)
        weights: dict[str, Any] = {
            "fidelity_loss": scheduled(config.fidelity_weight, config.fidelity_floor, config.decay, age),
            "diversity_loss": config.diversity_weight,
            "adversarial_loss": -config.adversarial_weight,
        }
        self._optimizer.zero_grad()
        torch.stack([weights[name] * loss for name, loss in losses.items()]).sum().backward()  # Eq. (8)
        if config.clip_norm:
            clip_grad_norm_(self.generator.parameters(), config.clip_norm)
        self._optimizer.step()
        return {name: loss.item() for name, loss in losses.items()}

    def _losses(
        self, teachers: Teachers, features_BD: torch.Tensor, noise_BZ: torch.Tensor, labels_B: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        """Return the terms whose weight is not 0."""
        config = self._config
        losses = {
            "fidelity_loss": fidelity(features_BD, labels_B, teachers.classifiers, config.literal_fidelity),
        }
        if config.diversity_weight:
            pairs = config.diversity_pairs
            losses["diversity_loss"] = diversity(features_BD, noise_BZ, labels_B, config.div, pairs)
        if config.adversarial_weight:
            targets_BD = teachers.prototypes_CD[labels_B]
            losses["adversarial_loss"] = distances(features_BD, targets_BD, config.distance).mean()  # Eq. (6)
        return losses
