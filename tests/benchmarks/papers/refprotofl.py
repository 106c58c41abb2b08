"""RefProtoFL on Fashion-MNIST with each of its parts left out, beside FedAvg and FedProto.

Ten clients, Dirichlet 0.5, 12,000 training images, a small net, 50 rounds; every client is tested on the same 2,000
images. All rows leave out the same public samples. `refprotofl_paper` has the paper's own setting, for a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from models.data import Dataset, load_dataset
from models.spec import ConfigError, DataConfig
from tests.benchmarks.figure import Figure, Skipped
from tests.benchmarks.papers import study

DATA = Path(__file__).parents[4] / "shared" / "data"

NUM_TRAIN, NUM_TEST = 12_000, 2_000

OWN = "method.name=refprotofl"

ROWS = (
    study.Row("full", (OWN,), "74.21; 45.51"),
    study.Row("without APUD", (OWN, "method.apud=false"), "; 45.37"),
    study.Row("without ERPA", (OWN, "method.erpa=false"), "; 44.62"),
    study.Row("without both", (OWN, "method.apud=false", "method.erpa=false"), "; 44.54"),
    study.Row("FedAvg", ("method.name=fedavg",), "73.72; 43.93"),
    study.Row("FedProto, head", ("method.name=fedproto", "evaluation.rule=head"), "73.82; 44.33"),
)
"""The paper's figures are for ResNet18 on all of Fashion-MNIST and of CIFAR-10, each with alpha = 0.5."""

COMMON = (
    "run.num_rounds=50",
    "data.partition=dirichlet",
    "data.alpha=0.5",
    "data.num_clients=10",
    "data.test_fraction=0",
    "data.public_per_class=20",
    "training.local_epochs=1",
    "training.batch_size=64",
    "training.lr=0.01",
    "training.momentum=0.9",
    "training.weight_decay=1e-4",
    "evaluation.every=10",
    "evaluation.test=global",
)
"""Of the paper's training, whatever the net and the samples."""


def run(out: Path, full: bool) -> list[Figure]:
    """Return the accuracies of all rows, with one seed or in full three.

    Raises:
        Skipped: Fashion-MNIST is not there.
    """
    settings = ("data.dataset=npz", f"data.root={_subset(out)}", "model.name=cnn", "model.feature_dim=128")
    return compare(range(3 if full else 1), (*COMMON, *settings, "training.threads=1"), out)


def compare(seeds: Sequence[int], common: Sequence[str], out: Path) -> list[Figure]:
    """Run all rows, and say whether the paper's order of its own four holds."""
    results = study.run(ROWS, seeds, common, out)
    for result in results:
        init = int(result.summaries[0]["init"]["encoded_bytes"])
        rules = ", ".join(f"{rule} {result.best(rule)[0]:.2f}" for rule in result.summaries[0]["accuracy_by_rule"])
        print(f"  {result.row.name}: run constants {init:,} bytes once; best of seed {seeds[0]}: {rules}")
    print("claim: full >= without APUD > without ERPA >= without both")
    _verdict("after the last round", [result.last() for result in results[:4]])
    _verdict("in the best round", [result.best() for result in results[:4]])
    return study.figures(results)


def _verdict(when: str, accuracies: Sequence[Sequence[float]]) -> None:
    """Say whether the claim holds for the mean accuracies of these four rows."""
    whole, no_apud, no_erpa, neither = (float(np.mean(of_seeds)) for of_seeds in accuracies)
    verdict = "holds" if whole >= no_apud > no_erpa >= neither else "does not hold"
    print(f"  {when} {whole:.2f}, {no_apud:.2f}, {no_erpa:.2f}, {neither:.2f}: {verdict}")


def fashion_mnist() -> Dataset:
    """Return Fashion-MNIST from `DATA`, or from where its Debian package puts it.

    Raises:
        Skipped: it is in neither place.
    """
    try:
        return load_dataset(DataConfig(dataset="fashion-mnist", root=str(DATA), pool="train"))
    except ConfigError as error:
        raise Skipped(str(error)) from None


def _subset(out: Path) -> Path:
    """Write some train and some test images, each drawn once and for all."""
    dataset, random = fashion_mnist(), np.random.default_rng(0)
    assert isinstance(dataset.x, np.ndarray)
    assert dataset.test_from is not None
    train = random.choice(dataset.test_from, NUM_TRAIN, replace=False)
    test = dataset.test_from + random.choice(len(dataset.y) - dataset.test_from, NUM_TEST, replace=False)
    rows = np.concatenate([train, test])
    path = out / "fashion-mnist.npz"
    np.savez(path, x=dataset.x[rows], y=dataset.y[rows], test_from=NUM_TRAIN)
    return path
