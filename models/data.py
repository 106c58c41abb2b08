"""Data sets, and the part of one that a client holds.

A data set is a function of `[data]`: one named in `DATASETS`, an installed package's, or `package.module:factory`.
Labels are ids of the run's label map, never of folder order. Importing this module costs numpy alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from models import partition
from models.datasets.torchvision_names import TORCHVISION
from models.partition import Labels
from models.registry import resolve
from models.spec import ConfigError, DataConfig, RunSpec

_FAMILIES = {
    "digits": "digits",
    "npz": "npz",
    "mnist": "idx",
    "fashion-mnist": "idx",
    "images": "images",
    **dict.fromkeys(TORCHVISION, "torchvision_sets"),
}

DATASETS = {name: f"models.datasets.{family}:load" for name, family in _FAMILIES.items()}
"""Where each data set is; `load` takes the `DataConfig` and returns a `Dataset`."""

WHATEVER_IS_THERE = ("npz", "images")
"""Those that are made of any files that lie in `[data] root`; the other ones are published, and known by name."""

WITHOUT_FILES = ("digits",)
"""Those that come with a package, whatever `[data] root` says."""

_LABELS_END = 2**31
"""No label is as large as this, whatever the classes are."""

_NAMED_AT_MOST = 5
"""Samples that a note names; it counts them all."""

_FULL_SCALE = {np.dtype(np.uint8): 255, np.dtype(np.uint16): 65535}


class UnreadableSampleError(Exception):
    """One sample cannot be read; the text says where it is and why."""


@runtime_checkable
class SampleFiles(Protocol):
    """Samples that stay where they are until somebody needs them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        ...

    def __len__(self) -> int:
        """Return how many there are, the unreadable ones included."""
        ...

    def read(self, row: int) -> np.ndarray:
        """Return one sample, float32 of `shape`; raises `UnreadableSampleError`."""
        ...


class Part(NamedTuple):
    """Samples, their labels, and what to tell people about them."""

    x: np.ndarray
    y: np.ndarray
    notes: list[str]


@dataclass(frozen=True)
class Dataset:
    """Samples `x` [N, ...] and their class ids `y` [N].

    `x` is float32 or what converts to it, uint8 or uint16 images [N, height, width] or [N, channels, height, width]
    (a net sees them scaled to 0..1), whole token ids [N, length] where `[data] tokens` says so, or `SampleFiles`.
    Rows from `test_from` on, if it is set, are the global test set and belong to no client; that of an `official`
    split is spread over the clients too where `[data] pool = "all"`. `notes` are for people. `mean` and `std` are those
    of `[data]`, whatever a factory says. What is refused is said of `origin`, such as a file, if it is set.
    """

    x: np.ndarray | SampleFiles
    y: np.ndarray
    classes: list[str]
    test_from: int | None = None
    official: bool = False
    notes: list[str] = field(default_factory=list)
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    origin: str = ""

    def labels(self, config: DataConfig) -> Labels:
        """Return what a partition needs to know of this data set."""
        return Labels(self.y, self.test_from, spreads_test=self.official and config.pool == "all")

    def take(self, rows: np.ndarray) -> Part:
        """Return these samples, float32 or int64 token ids [len(rows), ...], without those that cannot be read."""
        part = self.stored(rows)
        return part._replace(x=scaled(part.x, self.mean, self.std))

    def stored(self, rows: np.ndarray) -> Part:
        """Return these samples as they are stored, before `scaled`, without those that cannot be read."""
        if isinstance(self.x, np.ndarray):
            return Part(self.x[rows], self.y[rows], [])
        samples = np.empty((len(rows), *self.x.shape), np.float32)
        kept: list[int] = []
        unreadable: list[str] = []
        for row in rows:
            try:
                samples[len(kept)] = self.x.read(int(row))
                kept.append(int(row))
            except UnreadableSampleError as error:
                unreadable.append(str(error))
        notes = [list_faults(f"{len(rows)} samples cannot be read", unreadable)] if unreadable else []
        return Part(samples[: len(kept)], self.y[np.array(kept, np.int64)], notes)


@dataclass(frozen=True)
class ClientData:
    """One client's samples, split into train and test part; shapes as `Dataset.take` gives them.

    `num_skipped` counts what was there for this client and cannot be used; `notes` say why.
    """

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    classes: list[str]
    notes: list[str] = field(default_factory=list)
    num_skipped: int = 0


class ClientParts:
    """The data set of a run, loaded once and spread over its clients; who has more than one client uses it."""

    def __init__(self, spec: RunSpec, dataset: Dataset | None = None) -> None:
        """Spread a data set, by default the one that the run names, by the run's seed.

        Raises:
            ConfigError: the data cannot be loaded or spread.
        """
        self._spec = spec
        self.dataset = dataset or load_dataset(spec.data)
        self.splits = partition.split(self.dataset.labels(spec.data), spec.data, spec.seed, spec.plan.all_classes)

    def client(self, index: int) -> ClientData:
        """Return the samples of client `index`, from 0."""
        split = self.splits[index]
        train = self.dataset.take(split.train)
        test = self._global_test if self._spec.evaluation.test == "global" else self.dataset.take(split.test)
        notes = [*self.dataset.notes, *([split.note] if split.note else []), *train.notes, *test.notes]
        num_skipped = len(split.train) - len(train.y)
        if self._spec.evaluation.test == "own":
            num_skipped += len(split.test) - len(test.y)
        return ClientData(train.x, train.y, test.x, test.y, self.dataset.classes, notes, num_skipped)

    @cached_property
    def _global_test(self) -> Part:
        """The global test samples, which all clients share."""
        return self.dataset.take(self._global_test_rows())

    def _global_test_rows(self) -> np.ndarray:
        """Return the data set's own test rows if no client trains on one, else the test parts of all clients."""
        start = self.dataset.test_from
        if start is not None and all(split.train.max(initial=-1) < start for split in self.splits):
            return np.arange(start, len(self.dataset.y))
        return np.concatenate([split.test for split in self.splits])


def load_public_data(spec: RunSpec) -> Part:
    """Return the samples that a run holds out of all clients' data, as the data set stores them, and their labels.

    Raises:
        ConfigError: the data cannot be loaded, a public class has too few samples, a public sample cannot be read, or
            the data set's classes are not the run's label map.
    """
    dataset = load_dataset(spec.data)
    if dataset.classes != spec.classes:
        raise ConfigError(f"public data: expected label map {spec.classes}, {_name(spec.data)} has {dataset.classes}")
    part = dataset.stored(partition.public_rows(dataset.labels(spec.data), spec.data, spec.seed))
    if part.notes:
        raise ConfigError(f"public data: {part.notes[0]}")
    return part


def load_dataset(config: DataConfig) -> Dataset:
    """Load and check the data set that `[data]` names.

    Raises:
        ConfigError: it is unknown, missing or malformed; the text names path, row and label where there are any.
    """
    load = resolve("dataset", config.dataset, DATASETS)
    try:
        made = load(config)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{_name(config)} failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, Dataset):
        raise ConfigError(f"{_name(config)}: expected a models.data.Dataset, got {type(made).__name__}")
    return _checked(made, config)


def dataset_classes(config: DataConfig) -> list[str]:
    """Return the label map; of our own data sets without loading the samples and with numpy alone.

    Raises:
        ConfigError: the data set is unknown, or its files are missing or malformed.
    """
    if config.classes:
        _check_names(config.classes, "[data] classes:")
        return list(config.classes)
    if config.dataset in _FAMILIES:
        family = f"models.datasets.{_FAMILIES[config.dataset]}:classes"
        return list(resolve("dataset", family, {})(config))
    return load_dataset(config).classes


def load_client_data(spec: RunSpec, index: int) -> ClientData:
    """Load the data set, spread it by the run's seed, and take the samples of client `index` (from 0).

    Raises:
        ConfigError: the data cannot be loaded or spread, or there is no such client.
    """
    if not 0 <= index < spec.data.num_clients:
        raise ConfigError(f"[data] num_clients = {spec.data.num_clients}: there is no client of index {index}")
    return ClientParts(spec).client(index)


def whole_labels(y: np.ndarray, classes: Sequence[str] | None, where: str) -> np.ndarray:
    """Return labels as int64; each must be a whole number, not negative, and an id of the label map if one is given.

    Raises:
        ConfigError: the text names row, label and range.
    """
    if y.ndim != 1 or y.dtype.kind not in "buif":
        raise ConfigError(f"{where} y must be whole numbers [N], got {y.dtype} {list(y.shape)}")
    end = _LABELS_END if classes is None else len(classes)
    with np.errstate(invalid="ignore"):
        bad = ~((y >= 0) & (y < end)) | (y != np.floor(y.astype(np.float64)))
    if bad.any():
        row = int(np.argmax(bad))
        expected = (
            "a class id" if classes is None else f"an id of the label map 0..{len(classes) - 1} {list(classes[:20])}"
        )
        raise ConfigError(f"{where} y: row {row} has label {y[row]}, expected {expected}")
    return y.astype(np.int64)


def list_faults(what: str, faults: Sequence[str]) -> str:
    """Return one line that counts all faults and names the first few."""
    more = f"; and {len(faults) - _NAMED_AT_MOST} more" if len(faults) > _NAMED_AT_MOST else ""
    return f"{len(faults)} of {what} and are left out: {'; '.join(faults[:_NAMED_AT_MOST])}{more}"


def _name(config: DataConfig) -> str:
    return f"[data] dataset = {config.dataset!r}"


def _check_names(classes: Sequence[str], where: str) -> None:
    if len(set(classes)) < len(classes):
        raise ConfigError(f"{where} each class needs a name of its own, got {list(classes)}")


def _checked(made: Dataset, config: DataConfig) -> Dataset:
    """Return the data set with `x` and `y` in their final form, or refuse it in words."""
    where = f"{made.origin or _name(config)}:"
    classes = made.classes
    if not isinstance(classes, list) or not classes or not all(isinstance(name, str) for name in classes):
        raise ConfigError(f"{where} classes must be a list of names, got {classes!r}")
    _check_names(classes, where)
    if not isinstance(made.x, np.ndarray | SampleFiles) or not isinstance(made.y, np.ndarray):
        raise ConfigError(f"{where} x and y must be arrays, got {type(made.x).__name__} and {type(made.y).__name__}")
    x, y = _checked_samples(made.x, config, where), whole_labels(made.y, classes, where)
    if len(x) != len(y):
        raise ConfigError(f"{where} x and y must have equally many rows, got {len(x)} and {len(y)}")
    if made.test_from is not None and not 0 < made.test_from < len(y):
        raise ConfigError(f"{where} test_from must be a row number in 1..{len(y) - 1}, got {made.test_from}")
    return replace(made, x=x, y=y, mean=config.mean, std=config.std)


def _checked_samples(x: np.ndarray | SampleFiles, config: DataConfig, where: str) -> np.ndarray | SampleFiles:
    if config.tokens:
        x = _as_tokens(x, where)
    elif isinstance(x, np.ndarray):
        x = _as_samples(x, where)
    shape = x.shape[1:] if isinstance(x, np.ndarray) else x.shape
    check_normalization(config, shape, where)
    return x


def check_normalization(config: DataConfig, shape: Sequence[int], where: str) -> None:
    """Refuse a normalisation that does not fit the samples: a number for each channel of an image, or none at all."""
    given = (len(config.mean), len(config.std))
    expected = (shape[0], shape[0]) if len(shape) == 3 else (0, 0)
    if given not in ((0, 0), expected):
        told = f"expected {expected[0]} numbers each, one for a channel" if expected[0] else "these samples have none"
        raise ConfigError(f"{where} [data] mean and std: {told}, got {given[0]} and {given[1]}")


def _as_samples(x: np.ndarray, where: str) -> np.ndarray:
    """Return samples as float32, or as the whole numbers that images are; grey ones get a channel axis."""
    if x.ndim not in (2, 3, 4) or x.dtype.kind not in "buif" or 0 in x.shape[1:]:
        raise ConfigError(
            f"{where} x must be numbers [N, features], [N, H, W] or [N, C, H, W], got {x.dtype} {list(x.shape)}"
        )
    if x.ndim > 2 and x.dtype in _FULL_SCALE:
        return x[:, None] if x.ndim == 3 else x
    with np.errstate(over="ignore"):
        samples = x.astype(np.float32)
    bad = ~np.isfinite(samples).all(axis=tuple(range(1, samples.ndim)))
    if bad.any():
        raise ConfigError(f"{where} x must be finite, row {int(np.argmax(bad))} is not as float32")
    return samples[:, None] if x.ndim == 3 else samples


def _as_tokens(x: np.ndarray | SampleFiles, where: str) -> np.ndarray:
    if not isinstance(x, np.ndarray) or x.ndim != 2 or x.dtype.kind not in "ui" or 0 in x.shape[1:]:
        came = f"{x.dtype} {list(x.shape)}" if isinstance(x, np.ndarray) else type(x).__name__
        raise ConfigError(f"{where} tokens = true: x must be whole numbers [N, length], got {came}")
    tokens = x.astype(np.int64)
    bad = (tokens < 0).any(axis=1)
    if bad.any():
        raise ConfigError(f"{where} tokens = true: row {int(np.argmax(bad))} of x has a negative token id")
    return tokens


def scaled(x: np.ndarray, mean: Sequence[float] = (), std: Sequence[float] = ()) -> np.ndarray:
    """Return stored samples as a net takes them.

    The whole numbers of images become float32 in 0..1; then each channel's mean is taken off, and its deviation divided
    out, where these are given.
    """
    if x.dtype in _FULL_SCALE:
        x = x.astype(np.float32) / np.float32(_FULL_SCALE[x.dtype])
    if not len(mean):
        return x
    mean_C, std_C = np.array(mean, np.float32), np.array(std, np.float32)
    return (x - mean_C[:, None, None]) / std_C[:, None, None]
