"""FedPA's main table: FedAvg, FedProx, FedGen and FedPA on MNIST, spread by Dirichlet 0.1 as in FedGen's experiments.

The paper's setting: 20 clients, half of them in a round, 20 steps on batches of 32, 200 rounds, half of the train part;
every method's clients train by Adam with 3e-4 and the weight decay of the authors' code. That code may also take plain
gradient steps of 0.01, which make more of federated averaging than the paper has: `--full` adds a table of those, and
takes three seeds. The one global model is tested on the whole test part of 10,000 images every 10 rounds, where the
paper has the mean of the five best rounds on the clients' own test parts. The file is in a folder `shared/data` beside
the repository.

The paper's other tables are studies of their own: `fedpa_fashion`, `fedpa_participation` and `fedpa_features`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tests.benchmarks.figure import Figure, Skipped
from tests.benchmarks.mnist_split import SAMPLES
from tests.benchmarks.papers import study

SEEDS = (0, 1, 2)

SETTINGS = (
    "run.store=memory",
    "run.num_rounds=200",
    "round.fraction=0.5",
    "data.partition=fedgen-dirichlet",
    "data.ratio=0.5",
    "data.num_clients=20",
    "model.name=fedpa-cnn",
    "model.feature_dim=32",
    "training.local_steps=20",
    "training.batch_size=32",
    "training.optimizer=adam",
    "training.lr=3e-4",
    "training.weight_decay=1e-2",
    "evaluation.every=10",
    "evaluation.test=global",
)
"""Of all of FedPA's studies."""

PLAIN_STEPS = ("training.optimizer=sgd", "training.lr=0.01", "training.momentum=0", "training.weight_decay=0")

METHODS = {"FedAvg": "fedavg", "FedProx": "fedprox", "FedGen": "fedgen", "FedPA": "fedpa"}

PAPER = {"FedAvg": "88.87 / 90.71", "FedProx": "88.18", "FedGen": "90.49 / 95.68", "FedPA": "94.79"}
"""FedPA's paper, and what FedGen's author has measured again."""

MIN_GAIN = 2.0
"""Points that FedPA is to be above FedAvg."""


def run(out: Path, full: bool) -> list[Figure]:
    """Print the table and whether FedPA's claim holds, and in full the same for plain gradient steps.

    Raises:
        Skipped: the file is not there.
    """
    seeds = SEEDS if full else SEEDS[:1]
    figures = _compare(out, seeds, "", ())
    return figures + _compare(out, seeds, ", plain steps", PLAIN_STEPS) if full else figures


def _compare(out: Path, seeds: Sequence[int], suffix: str, settings: Sequence[str]) -> list[Figure]:
    rows = [
        study.Row(f"{name}{suffix}", [f"method.name={method}", *settings], PAPER[name])
        for name, method in METHODS.items()
    ]
    results = study.run(rows, seeds, [*mnist(out), "data.alpha=0.1", *SETTINGS], out)
    best = dict(zip(METHODS, (statistics.mean(result.best()) for result in results), strict=True))
    print(f"paper %: FedPA's, and behind / FedGen's author's\n{verdict(best)}", flush=True)
    return study.figures(results)


def mnist(out: Path) -> list[str]:
    """Return the settings of MNIST with its last 10,000 images as the test part, in a file of the study's own.

    Raises:
        Skipped: the file of all images is not there.
    """
    if not SAMPLES.exists():
        raise Skipped(f"there is no {SAMPLES.name} in {SAMPLES.parent}")
    path = out / "mnist.npz"
    if not path.exists():
        with np.load(SAMPLES) as pooled:
            np.savez(path, x=pooled["x"], y=pooled["y"], test_from=60_000)
    return ["data.dataset=npz", f"data.root={path}"]


def verdict(best: Mapping[str, float]) -> str:
    """Return whether FedPA's best accuracy is as far above FedAvg's as it should be, and not below FedGen's."""
    gains = {name: best["FedPA"] - best[name] for name in ("FedAvg", "FedGen")}
    word = "holds" if gains["FedAvg"] >= MIN_GAIN and gains["FedGen"] >= 0 else "does not hold"
    measured = ", ".join(f"{gain:+.2f} points from {name}" for name, gain in gains.items())
    return f"claim: FedPA {MIN_GAIN:g} points above FedAvg and not below FedGen: {word} ({measured})"
