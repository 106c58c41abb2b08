"""Class-wise prototype sparsification: the masks, and prototypes that pass through them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from models import seeding
from models.methods.tinyproto import Config, Masks, kept_dim
from models.spec import ConfigError, RunSpec
from wire.payload import Payload

_ROWS_AT_A_TIME = 256


def draw_masks(seed: int, num_classes: int, feature_dim: int, prototype_dim: int) -> np.ndarray:
    """Return the features that each class keeps, int64 [C, S] and ascending in each row, equal in every process.

    How often the features are used differs by 1 at most: so the masks' mean Hamming distance is the largest possible,
    and they are disjoint if C * S <= D.
    """
    random = seeding.generator(seed, "server", "masks")
    uses_D = np.zeros(feature_dim, np.int64)
    kept_CS = np.empty((num_classes, prototype_dim), np.int64)
    for kept_S in kept_CS:
        in_order = np.argsort(uses_D + random.random(feature_dim), kind="stable")
        kept_S[:] = np.sort(in_order[:prototype_dim])
        uses_D[kept_S] += 1
    return kept_CS


def smallest_distance(kept_CS: np.ndarray, feature_dim: int) -> int:
    """Return the smallest Hamming distance between two classes' masks; of one class alone 2 S, as of disjoint ones."""
    num_classes, num_kept = kept_CS.shape
    masks_CD = np.zeros((num_classes, feature_dim), np.float32)
    np.put_along_axis(masks_CD, kept_CS, 1.0, axis=1)
    most_shared = 0
    for begin in range(1, num_classes, _ROWS_AT_A_TIME):  # rows against all before them, as many pairs as fit in memory
        rows_BD = masks_CD[begin : begin + _ROWS_AT_A_TIME]
        shared_BC = np.tril(rows_BD @ masks_CD[: begin + len(rows_BD)].T, begin - 1)
        most_shared = max(most_shared, int(shared_BC.max()))
    return int(2 * (num_kept - most_shared))


def write_masks(kept_CS: np.ndarray, feature_dim: int) -> dict[str, np.ndarray]:
    """Return the run constant of these masks."""
    positions = (kept_CS + feature_dim * np.arange(len(kept_CS))[:, None]).ravel()
    return Masks(positions).to_payload(dims={"all": len(kept_CS) * feature_dim}).arrays


def read_masks(arrays: Mapping[str, np.ndarray], spec: RunSpec, config: Config) -> np.ndarray:
    """Return the features that each class keeps, int64 [C, S], of a run constant.

    Raises:
        RecordError: it is for other sizes than this run's.
        ConfigError: not every class keeps equally many.
    """
    num_classes, feature_dim = spec.num_classes, spec.model.feature_dim
    dim = kept_dim(config, feature_dim)
    sizes = {"kept": num_classes * dim, "all": num_classes * feature_dim}
    rows, kept = np.divmod(Masks.from_payload(Payload.of_state(arrays), sizes).positions, feature_dim)
    counts = np.bincount(rows, minlength=num_classes)
    if (counts != dim).any():
        raise ConfigError(f"masks: expected {dim} features of each class, got {counts.tolist()}")
    return kept.reshape(num_classes, dim)


def held_masks(arrays: Mapping[str, np.ndarray], spec: RunSpec, config: Config) -> np.ndarray:
    """Return the masks of a server half's state, or new ones for a state that has none, int64 [C, S]."""
    if "masks" in arrays:
        return read_masks({"positions": arrays["masks"]}, spec, config)
    feature_dim = spec.model.feature_dim
    return draw_masks(spec.seed, spec.num_classes, feature_dim, kept_dim(config, feature_dim))


def compress(prototypes_CD: np.ndarray, kept_CS: np.ndarray) -> np.ndarray:
    """Return the kept features of each prototype [C, S]."""
    return np.take_along_axis(prototypes_CD, kept_CS, axis=1)  # Eq. (8)


def reconstruct(compressed_CS: np.ndarray, kept_CS: np.ndarray, feature_dim: int) -> np.ndarray:
    """Return prototypes [C, D] with the kept features in their places and 0 in all others."""
    sparse_CD = np.zeros((len(compressed_CS), feature_dim), compressed_CS.dtype)
    np.put_along_axis(sparse_CD, kept_CS, compressed_CS, axis=1)  # Eq. (7)
    return sparse_CD
