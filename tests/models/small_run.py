"""A run that is small enough for any test, and clients that are uneven enough to meet every special case."""

from collections.abc import Collection
from typing import Any

import numpy as np

from models.data import ClientData, Dataset
from models.spec import DataConfig, EvaluationConfig, ModelConfig, RunSpec, TrainingConfig, WireConfig


def make_spec(method: str, num_classes: int = 4, **changes: Any) -> RunSpec:
    """A small run; `changes` replace whole sections or plain fields of it."""
    fields: dict[str, Any] = {
        "run_id": "test",
        "seed": 0,
        "num_rounds": 3,
        "method": method,
        "method_config": {},
        "classes": [str(label) for label in range(num_classes)],
        "data": DataConfig(),
        "model": ModelConfig(name="cnn", feature_dim=6),
        "training": TrainingConfig(local_epochs=1, batch_size=4, lr=0.01),
        "evaluation": EvaluationConfig(),
        "wire": WireConfig(),
    }
    return RunSpec(**{**fields, **changes})


ON_CPU = TrainingConfig(local_epochs=1, batch_size=4, lr=0.01, device="cpu")
"""The same training, also where there is a GPU."""


def make_data(labels: Collection[int], num_classes: int = 4, seed: int = 0) -> ClientData:
    """Noisy 4 x 4 images, lighter with the class id; the test part equals the train part."""
    y = np.array(list(labels), np.int64)
    x = np.random.default_rng(seed).normal(size=(len(y), 1, 4, 4)) * 0.1 + y[:, None, None, None]
    x = x.astype(np.float32)
    return ClientData(x, y, x, y, [str(label) for label in range(num_classes)])


def load(config: DataConfig) -> Dataset:
    """A data set of such images for `[data] dataset`, of which a run can hold out public samples."""
    made = make_data([0, 1, 2, 3] * 5)
    return Dataset(made.train_x, made.train_y, made.classes)


UNEVEN = {"a": [0, 0, 0, 1, 1, 2], "b": [1, 1, 2, 2, 2], "c": [2], "d": []}
"""Labels of four clients: one holds a single sample, one nothing, and nobody holds class 3."""
