"""FedPA's table on Fashion-MNIST, spread by Dirichlet 0.3 and 1.0, in the setting of the study `fedpa`."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.figure import Figure
from tests.benchmarks.papers import fedpa, study
from tests.benchmarks.papers.refprotofl import DATA, fashion_mnist

PAPER = {
    0.3: {"FedAvg": "84.36 / 83.5", "FedProx": "84.58", "FedGen": "85.26 / 84.6", "FedPA": "85.52 / 85.2"},
    1.0: {"FedAvg": "86.31 / 83.8", "FedProx": "86.19", "FedGen": "86.90 / 84.8", "FedPA": "87.41 / 85.4"},
}
"""By alpha: FedPA's paper, and one seed of its authors' code."""


def run(out: Path, full: bool) -> list[Figure]:
    """Print a table for each alpha.

    Raises:
        Skipped: Fashion-MNIST is not there.
    """
    fashion_mnist()
    data = ["data.dataset=fashion-mnist", f"data.root={DATA}", "data.pool=train", *fedpa.SETTINGS]
    seeds = fedpa.SEEDS if full else fedpa.SEEDS[:1]
    results = []
    for alpha, paper in PAPER.items():
        settings = {name: [f"method.name={method}", f"data.alpha={alpha}"] for name, method in fedpa.METHODS.items()}
        rows = [study.Row(f"{name}, alpha = {alpha}", settings[name], paper[name]) for name in settings]
        results += study.run(rows, seeds, data, out)
    print("paper %: FedPA's, and behind / one seed of its authors' code", flush=True)
    return study.figures(results)
