"""Differential privacy of class statistics: what one sample can change is bounded, and hidden in Gaussian noise.

It is for methods whose features come from an extractor that no device's samples have shaped (`frozen_extractor`): from
any other the samples would show in whatever else it sends, and in the features themselves.

A sample's feature f is clipped to a norm of R, `clip_norm`. In units of R it then adds f to the sum of its class, f * f
to the sum of squares, and 1 to the count: together a vector of a norm of sqrt(3) at most. Each entry, of every class of
the label map (which of them a client has must not show either), gets Gaussian noise of `noise_multiplier` times that.
So a release is a Gaussian mechanism with this multiplier, between neighbours of which one has one train sample more.
What a client announces at join is one release, of counts alone, and then there may be one in each exchange; its train
samples must be the same in all of them, or there would be more.

The noise follows from a secret that the client has made, so that a repeated attempt repeats it and nobody else knows
it; and from all that is released, so that nothing else is said with the same noise: the difference would be exact.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from models import seeding
from models.checkpoint import state_hash
from models.spec import ConfigError, PrivacyConfig, RunSpec

if TYPE_CHECKING:
    from models.methods.api import Method

_LARGEST_CHANGE = math.sqrt(3)
"""What one sample can change in the statistics of its class, as a norm, in units of the clipping norm."""


class ClassStatistics(NamedTuple):
    """Noised sums and sums of squares of clipped features, float64 [C, D], and counts [C], of all classes; of any sign.

    What is made of these alone costs nothing more: a mean is a sum over its count, where that is large enough.
    """

    sums_CD: np.ndarray
    squares_CD: np.ndarray
    counts_C: np.ndarray


class Release:
    """The one noised word on its train samples that a client has in an exchange, or at join."""

    def __init__(self, spec: RunSpec, secret: bytes, *keys: str | int) -> None:
        """Say of which run it is, what the client's own secret for that run is, and what the word is for."""
        self._privacy = spec.privacy
        self._num_classes = spec.num_classes
        self._secret = secret
        self._keys = (msgspec.json.encode(msgspec.structs.replace(spec, run_id="")).decode(), *keys)
        self._is_spent = False

    def class_statistics(self, features_BD: np.ndarray, labels_B: np.ndarray) -> ClassStatistics:
        """Return the noised statistics of features [B, D] with class ids [B].

        Raises:
            RuntimeError: the one word was said before; another is not accounted for.
        """
        norm = self._privacy.clip_norm
        unit_BD = clipped(features_BD, norm) / norm
        sums_CD, squares_CD = np.zeros((2, self._num_classes, unit_BD.shape[1]))
        np.add.at(sums_CD, labels_B, unit_BD)
        np.add.at(squares_CD, labels_B, unit_BD**2)
        exact = {"sums": sums_CD, "squares": squares_CD, "counts": self._count(labels_B)}
        noised = self._noised(exact, _LARGEST_CHANGE)
        return ClassStatistics(noised["sums"] * norm, noised["squares"] * norm**2, noised["counts"])

    def class_moments(self, features_BD: np.ndarray, labels_B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances, float32 [C, D], of all classes: made of the statistics, within what can be.

        Raises:
            RuntimeError: as above.
        """
        norm, told = self._privacy.clip_norm, self.class_statistics(features_BD, labels_B)
        counts_C = np.maximum(told.counts_C, 1.0)[:, None]
        means_CD = clipped(told.sums_CD / counts_C, norm)
        variances_CD = np.clip(told.squares_CD / counts_C - means_CD**2, 0.0, norm**2)
        return means_CD.astype(np.float32), variances_CD.astype(np.float32)

    def class_counts(self, labels_B: np.ndarray) -> np.ndarray:
        """Return noised numbers of samples of all classes, int64 [C], none below 0.

        Raises:
            RuntimeError: as above.
        """
        noised_C = self._noised({"counts": self._count(labels_B)}, 1.0)["counts"]
        counts_C: np.ndarray = np.maximum(np.rint(noised_C), 0).astype(np.int64)
        return counts_C

    def _count(self, labels_B: np.ndarray) -> np.ndarray:
        return np.bincount(labels_B, minlength=self._num_classes).astype(np.float64)

    def _noised(self, exact: Mapping[str, np.ndarray], largest_change: float) -> dict[str, np.ndarray]:
        if self._is_spent:
            raise RuntimeError("expected one noised release in an exchange, got a second one")
        self._is_spent = True
        random = seeding.secret_generator(self._secret, *self._keys, state_hash(exact))
        deviation = self._privacy.noise_multiplier * largest_change
        return {name: array + random.normal(0.0, deviation, array.shape) for name, array in exact.items()}


def clipped(features_BD: np.ndarray, norm: float) -> np.ndarray:
    """Return features, float64 [B, D], of which the longer ones are shortened to this norm.

    Raises:
        ValueError: one is not finite.
    """
    if not np.isfinite(features_BD).all():
        raise ValueError("expected finite features to clip, got nan or inf")
    features_BD = features_BD.astype(np.float64)
    norms_B = np.linalg.norm(features_BD, axis=1, keepdims=True)
    clipped_BD: np.ndarray = features_BD * np.minimum(1.0, norm / np.maximum(norms_B, np.finfo(np.float64).tiny))
    return clipped_BD


def run_secret(own: bytes, run_id: str) -> bytes:
    """Return a client's secret for one run, from the one that it keeps."""
    return hashlib.blake2b(run_id.encode(), key=own, digest_size=32).digest()


def seed_secret(seed: int) -> bytes:
    """Return the secret of clients that are no devices: it repeats a run, and hides nothing from who knows the seed."""
    return hashlib.blake2b(str(seed).encode(), digest_size=32).digest()


def check_noise(privacy: PrivacyConfig, method: Method, rule: str) -> None:
    """Refuse noise that would not hide what it is there to hide; `rule` is the headline rule.

    Raises:
        ConfigError: the method trains its extractor, or the rule tests what a client has of its own.
    """
    if not privacy.adds_noise:
        return
    where = f"[privacy] noise_multiplier = {privacy.noise_multiplier:g}"
    if not method.frozen_extractor:
        raise ConfigError(
            f"{where}: expected 0, as {method.name} has a feature extractor that is trained on the device's own "
            "samples: they shape all that it sends, which noise on class statistics cannot hide"
        )
    headline = method.headline_rule(rule)
    if headline not in ("", *method.global_rules):
        rules = ", ".join(method.global_rules) or "none"
        raise ConfigError(
            f"{where}: expected [evaluation] rule to be one that tests the global state ({rules}), as accuracies of a "
            f"client's own state tell of its samples; got {headline!r}"
        )
