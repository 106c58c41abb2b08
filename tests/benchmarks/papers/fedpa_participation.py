"""FedPA's table of participation: a tenth, half and four fifths of the clients in a round, on MNIST.

The paper's figures are EMNIST's and serve for comparison of the order only; the setting is that of the study `fedpa`.
"""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.figure import Figure
from tests.benchmarks.papers import fedpa, study

PAPER = {
    0.1: {"FedAvg": "66.39", "FedGen": "69.46", "FedPA": "74.00"},
    0.5: {"FedAvg": "70.13", "FedGen": "75.59", "FedPA": "77.14"},
    0.8: {"FedAvg": "70.87", "FedGen": "76.21", "FedPA": "78.35"},
}
"""On EMNIST, by the share of clients in a round."""


def run(out: Path, full: bool) -> list[Figure]:
    """Print one table of all shares and methods.

    Raises:
        Skipped: the file of MNIST is not there.
    """
    rows = [
        study.Row(f"{name}, C = {share}", [f"method.name={fedpa.METHODS[name]}", f"round.fraction={share}"], accuracy)
        for share, paper in PAPER.items()
        for name, accuracy in paper.items()
    ]
    common = [*fedpa.mnist(out), "data.alpha=0.1", *(one for one in fedpa.SETTINGS if "fraction" not in one)]
    results = study.run(rows, fedpa.SEEDS if full else fedpa.SEEDS[:1], common, out)
    print("paper %: on EMNIST", flush=True)
    return study.figures(results)
