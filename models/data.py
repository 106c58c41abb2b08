"""Data sets, and the part of one that a client holds.

A data set is a function of `[data]`; its name stands in `DATASETS`. Labels are ids of the run's label map, never of
folder order. Importing this module costs numpy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from models import partition
from models.registry import resolve
from models.spec import ConfigError, DataConfig, RunSpec


@dataclass(frozen=True)
class Dataset:
    """Samples `x` float32 [N, ...] (images are [N, channels, height, width]) and their class ids `y` int64 [N].

    Rows from `test_from` on, if it is set, are the global test set and belong to no client.
    """

    x: np.ndarray
    y: np.ndarray
    classes: list[str]
    test_from: int | None = None

    def train_labels(self) -> np.ndarray:
        """Return the labels of the rows that are spread over the clients."""
        return self.y[: self.test_from]


@dataclass(frozen=True)
class ClientData:
    """One client's samples, split into train and test part; shapes as in `Dataset`."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    classes: list[str]


def load_dataset(config: DataConfig) -> Dataset:
    """Load and check the data set that `[data]` names.

    Raises:
        ConfigError: it is unknown, missing or malformed; the text names path, row and label where there are any.
    """
    made = resolve("dataset", config.dataset, DATASETS)(config)
    assert isinstance(made, Dataset)
    return made


def dataset_classes(config: DataConfig) -> list[str]:
    """Return the label map, without loading the samples and with numpy alone.

    Raises:
        ConfigError: the data set is unknown, or its file is missing or malformed.
    """
    if config.classes:
        return list(config.classes)
    if config.dataset == "digits":
        return [str(digit) for digit in range(10)]
    if config.dataset == "npz":
        labels = _read_npz(config, ("y",))["y"]
        return [str(label) for label in range(int(_whole_labels(labels, None).max(initial=-1)) + 1)]
    return load_dataset(config).classes


def load_client_data(spec: RunSpec, index: int) -> ClientData:
    """Load the data set, spread it by the run's seed, and take the samples of client `index` (from 0).

    Raises:
        ConfigError: the data cannot be loaded or spread, or there is no such client.
    """
    if not 0 <= index < spec.data.num_clients:
        raise ConfigError(f"[data] num_clients = {spec.data.num_clients}: there is no client of index {index}")
    dataset = load_dataset(spec.data)
    splits = partition.split(dataset.train_labels(), spec.data, spec.seed)
    train, test = splits[index]
    if spec.evaluation.test == "global":
        test = _global_test_rows(dataset, splits)
    return ClientData(dataset.x[train], dataset.y[train], dataset.x[test], dataset.y[test], dataset.classes)


def _global_test_rows(dataset: Dataset, splits: list[partition.ClientSplit]) -> np.ndarray:
    if dataset.test_from is not None:
        return np.arange(dataset.test_from, len(dataset.y))
    return np.concatenate([test for _, test in splits])


def _digits(config: DataConfig) -> Dataset:
    """Return scikit-learn's bundled handwritten digits: 1,797 grey images of 8 x 8."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ConfigError("[data] dataset = 'digits' needs scikit-learn: pip install 'protoedge[train]'") from None
    x, y = load_digits(return_X_y=True)
    classes = dataset_classes(config)
    return Dataset((x / 16).astype(np.float32).reshape(-1, 1, 8, 8), _whole_labels(y, classes), classes)


def _npz(config: DataConfig) -> Dataset:
    """Return the arrays `x`, `y` and the optional `test_from` of a numpy file."""
    arrays = _read_npz(config, ("x", "y"))
    classes = dataset_classes(config)
    x, y = _as_samples(arrays["x"]), _whole_labels(arrays["y"], classes)
    if len(x) != len(y):
        raise ConfigError(f"[data] x and y must have equally many rows, got {len(x)} and {len(y)}")
    return Dataset(x, y, classes, _test_from(arrays, len(y)))


DATASETS: dict[str, Callable[[DataConfig], Dataset]] = {"digits": _digits, "npz": _npz}
"""Data sets by name."""


def _read_npz(config: DataConfig, needed: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Read the needed arrays of the file that `[data] root` names, and `test_from` if it is there."""
    from zipfile import BadZipFile  # numpy needs it here, a daemon whose data set is another one does not

    path = Path(config.root or ".").expanduser()
    path = path / "data.npz" if path.is_dir() or not config.root else path
    if not path.is_file():
        raise ConfigError(
            f"[data] dataset = 'npz': no file {path}; set [data] root to a file written by "
            "numpy.savez(path, x=..., y=...), or to a folder that holds it as data.npz"
        )
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            missing = [name for name in needed if name not in archive]
            if missing:
                raise ConfigError(f"{path}: expected arrays {', '.join(needed)}, got {', '.join(archive.files)}")
            return {name: archive[name] for name in (*needed, "test_from") if name in archive}
    except (OSError, ValueError, TypeError, AttributeError, EOFError, BadZipFile) as error:
        raise ConfigError(f"{path}: expected a numpy .npz file of plain arrays: {error}") from None


def _as_samples(x: np.ndarray) -> np.ndarray:
    """Return samples as float32: grey images get a channel axis, uint8 images are scaled to 0..1."""
    if x.ndim not in (2, 3, 4) or x.dtype.kind not in "buif" or 0 in x.shape[1:]:
        raise ConfigError(
            f"[data] x must be numbers [N, features], [N, H, W] or [N, C, H, W], got {x.dtype} {list(x.shape)}"
        )
    scale = 255 if x.dtype == np.uint8 and x.ndim > 2 else 1
    x = x[:, None] if x.ndim == 3 else x
    samples = x.astype(np.float32) / np.float32(scale)
    bad = ~np.isfinite(samples).reshape(len(x), -1).all(axis=1)
    if bad.any():
        raise ConfigError(f"[data] x must be finite, row {int(np.argmax(bad))} is not")
    return samples


def _whole_labels(y: np.ndarray, classes: list[str] | None) -> np.ndarray:
    """Return labels as int64; each must be a whole number, not negative, and an id of the label map if one is given."""
    if y.ndim != 1 or y.dtype.kind not in "buif":
        raise ConfigError(f"[data] y must be whole numbers [N], got {y.dtype} {list(y.shape)}")
    with np.errstate(invalid="ignore"):
        bad = ~(y >= 0) | (y != np.floor(y.astype(np.float64)))
        if classes is not None:
            bad |= y >= len(classes)
    if bad.any():
        row = int(np.argmax(bad))
        expected = "a class id" if classes is None else f"an id of the label map 0..{len(classes) - 1} {classes[:20]}"
        raise ConfigError(f"[data] y: row {row} has label {y[row]}, expected {expected}")
    return y.astype(np.int64)


def _test_from(arrays: Mapping[str, np.ndarray], num_rows: int) -> int | None:
    if "test_from" not in arrays:
        return None
    came = arrays["test_from"]
    if came.size != 1 or came.dtype.kind not in "ui" or not 0 < int(came.item()) < num_rows:
        raise ConfigError(f"[data] test_from must be a row number in 1..{num_rows - 1}, got {came.tolist()}")
    return int(came.item())
