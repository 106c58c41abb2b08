"""What a client tells of itself at join."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from models.backend import Backend
from models.data import ClientData
from models.spec import RunSpec


class Announcement(msgspec.Struct, frozen=True):
    """Counts per class are of the label map; `num_skipped` samples are there and cannot be used."""

    num_train: int
    num_test: int
    class_counts: list[int]
    test_counts: list[int]
    feature_dim: int
    num_parameters: int
    num_buffers: int
    computed_by: str
    num_skipped: int


def announce(spec: RunSpec, data: ClientData, class_counts: np.ndarray, backend: Backend, net: Any) -> Announcement:
    """Return what a client with these samples and this net tells; `class_counts` are those of `data`, or noised."""
    num_parameters, num_buffers = backend.sizes(net)
    return Announcement(
        num_train=int(class_counts.sum()),
        num_test=len(data.test_y),
        class_counts=class_counts.tolist(),
        test_counts=np.bincount(data.test_y, minlength=spec.num_classes).tolist(),
        feature_dim=spec.model.feature_dim,
        num_parameters=num_parameters,
        num_buffers=num_buffers,
        computed_by=backend.computed_by,
        num_skipped=data.num_skipped,
    )
