"""The data sets of the papers' tables, as runs take them; their sources lie where `mnist_split.DATA` is.

Images of MNIST are in one pool, whose official split is lost: the last 10,000 stand for the test set.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from models.data import Dataset, load_dataset
from models.spec import ConfigError, DataConfig
from tests.benchmarks.cifar import IMAGES
from tests.benchmarks.figure import Skipped
from tests.benchmarks.mnist_split import DATA, INDICES, SAMPLES

MNIST_TEST_FROM = 60_000

FOLDER = "{folder}"
"""In settings, the folder that `Samples.write` has written to."""


def _nothing(folder: Path) -> None:
    """Write nothing."""


@dataclass(frozen=True)
class Samples:
    """Settings that name a data set, and what writes its files into a folder; `write` may raise `Skipped`."""

    settings: tuple[str, ...]
    write: Callable[[Path], None] = _nothing


def _require(path: Path) -> None:
    if not path.exists():
        raise Skipped(f"there is no {path.name} in {path.parent}")


def _write_mnist(folder: Path) -> None:
    _require(SAMPLES)
    with np.load(SAMPLES) as pooled:
        np.savez(folder / "mnist.npz", x=pooled["x"], y=pooled["y"], test_from=MNIST_TEST_FROM)


def _write_some_mnist(num_train: int, num_test: int, folder: Path) -> None:
    _require(SAMPLES)
    with np.load(SAMPLES) as pooled:
        x, y = pooled["x"], pooled["y"]
    train = [np.flatnonzero(y[:MNIST_TEST_FROM] == digit)[:num_train] for digit in range(10)]
    test = [MNIST_TEST_FROM + np.flatnonzero(y[MNIST_TEST_FROM:] == digit)[:num_test] for digit in range(10)]
    rows = np.concatenate([*train, *test])
    np.savez(folder / f"mnist-{num_train}.npz", x=x[rows], y=y[rows], test_from=sum(map(len, train)))


def some_mnist(num_train: int, num_test: int) -> Samples:
    """Return the first so many training and test images of each digit, fewer where there are fewer."""
    settings = ("data.dataset=npz", f"data.root={FOLDER}/mnist-{num_train}.npz")
    return Samples(settings, partial(_write_some_mnist, num_train, num_test))


def _write_thinned_split(num_kept: int, folder: Path) -> None:
    _require(SAMPLES)
    _require(INDICES)
    with np.load(INDICES) as parts:
        np.savez(folder / "mnist_subset.npz", **thin(dict(parts), num_kept))  # type: ignore[arg-type]


def thin(parts: Mapping[str, np.ndarray], num_kept: int) -> dict[str, np.ndarray]:
    """Return so many rows in all, evenly spaced over the parts laid end to end."""
    ends = np.cumsum([len(rows) for rows in parts.values()])
    kept = np.arange(num_kept) * ends[-1] // num_kept
    starts = ends - [len(rows) for rows in parts.values()]
    bounds = zip(parts.items(), starts, ends, strict=True)
    return {name: rows[kept[(kept >= start) & (kept < end)] - start] for (name, rows), start, end in bounds}


def _fashion_mnist() -> Dataset:
    try:
        return load_dataset(DataConfig(dataset="fashion-mnist", root=str(DATA), pool="train"))
    except ConfigError as error:
        raise Skipped(str(error)) from None


def _require_fashion_mnist(folder: Path) -> None:
    _fashion_mnist()


def _write_some_fashion(num_train: int, num_test: int, folder: Path) -> None:
    dataset, random = _fashion_mnist(), np.random.default_rng(0)
    assert isinstance(dataset.x, np.ndarray)
    assert dataset.test_from is not None
    train = random.choice(dataset.test_from, num_train, replace=False)
    test = dataset.test_from + random.choice(len(dataset.y) - dataset.test_from, num_test, replace=False)
    rows = np.concatenate([train, test])
    np.savez(folder / "fashion-mnist.npz", x=dataset.x[rows], y=dataset.y[rows], test_from=num_train)


def _unpack_cifar(folder: Path) -> None:
    _require(IMAGES)
    done = folder / "cifar10.unpacked"
    if not done.exists():
        with tarfile.open(IMAGES) as archive:
            archive.extractall(folder / "cifar10", filter="data")
        done.touch()


DIGITS = Samples(("data.dataset=digits",))
"""Scikit-learn's 1,797 images of 8 x 8."""

MNIST = Samples(("data.dataset=npz", f"data.root={FOLDER}/mnist.npz"), _write_mnist)

THINNED_MNIST = Samples(
    (
        "data.dataset=npz",
        f"data.root={SAMPLES}",
        "data.partition=indices",
        f"data.indices={FOLDER}/mnist_subset.npz",
    ),
    partial(_write_thinned_split, 6000),
)
"""6,000 images, evenly taken from a published split over 20 clients by Dirichlet 0.1, 75 to 25 inside each."""

FASHION_MNIST = Samples(("data.dataset=fashion-mnist", f"data.root={DATA}", "data.pool=train"), _require_fashion_mnist)

SOME_FASHION_MNIST = Samples(
    ("data.dataset=npz", f"data.root={FOLDER}/fashion-mnist.npz"), partial(_write_some_fashion, 12_000, 2_000)
)
"""12,000 training and 2,000 test images, drawn once and for all."""

CIFAR10 = Samples(
    (
        "data.dataset=images",
        f"data.root={FOLDER}/cifar10",
        "data.mean=[0.5, 0.5, 0.5]",
        "data.std=[0.5, 0.5, 0.5]",
    ),
    _unpack_cifar,
)
"""60,000 images as JPEG files, a little under the original ones."""
