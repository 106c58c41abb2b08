"""FedPA, Table III: a tenth, half and four fifths of the clients in a round, on MNIST instead of EMNIST."""

from __future__ import annotations

from tests.benchmarks.papers import fedpa
from tests.benchmarks.papers.samples import MNIST
from tests.benchmarks.papers.study import CUDA, Federation, PaperTable, Row, Scale

PAPER = {
    "FedAvg": {"0.1": 66.39, "0.5": 70.13, "0.8": 70.87},
    "FedGen": {"0.1": 69.46, "0.5": 75.59, "0.8": 76.21},
    "FedPA": {"0.1": 74.00, "0.5": 77.14, "0.8": 78.35},
}
"""On EMNIST, by the share of clients in a round."""

SHARES = ("0.8", "0.5", "0.1")


def table(scale: Scale) -> PaperTable:
    """Return the paper's setting, with one seed or three."""
    own, num_seeds = ((), 1) if scale == "cpu" else (CUDA, 3)
    rows = [
        Row(_name(method, share), [f"method.name={fedpa.METHODS[method]}", f"round.fraction={share}"], accuracy)
        for method, paper in PAPER.items()
        for share, accuracy in paper.items()
    ]
    orders = [
        *([_name(method, share) for method in fedpa.ORDER] for share in SHARES),
        *([_name(method, share) for share in SHARES] for method in PAPER),
    ]
    settings = (*fedpa.SETTINGS, *own)
    federation = Federation("MNIST, Dirichlet 0.1, by the share C", MNIST, settings, rows, orders, num_seeds)
    about = "The paper's accuracies are EMNIST's: only the order compares."
    return PaperTable([fedpa.ABOUT, about, *([fedpa.SMALLER] if scale == "cpu" else [])], [federation])


def _name(method: str, share: str) -> str:
    return f"{method}, C = {share}"
