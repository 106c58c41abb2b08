"""FedPA, Table IV: its three terms, each left out, on MNIST instead of EMNIST."""

from __future__ import annotations

from tests.benchmarks.papers import fedpa
from tests.benchmarks.papers.samples import MNIST
from tests.benchmarks.papers.study import CUDA, Federation, PaperTable, Row, Scale

NO_AD = "method.adversarial_weight=0"
NO_GE = "method.generated_weight=0"
NO_PO = "method.prototype_weight=0"

OWN = "method.name=fedpa"

ROWS = (
    Row("none", (OWN, NO_AD, NO_GE, NO_PO), 70.94),
    Row("po", (OWN, NO_AD, NO_GE), 75.21),
    Row("ge", (OWN, NO_AD, NO_PO), 77.39),
    Row("ad and ge", (OWN, NO_PO), 77.42),
    Row("ge and po", (OWN, NO_AD), 78.85),
    Row("all", (OWN,), 78.93),
)
"""By the terms that are there; the paper's are EMNIST's accuracies."""

SMALL = ("run.num_rounds=60", "evaluation.every=20")

ABOUT = (
    "Rows are named for the terms that they have: ad makes the generator an adversary of the prototypes, ge trains "
    "clients on generated features, po pulls their own towards prototypes. The paper's accuracies are EMNIST's: only "
    "the order compares."
)
SMALLER = (
    "At this scale: 60 rounds of which every twentieth is tested, one seed. That is early: in `fedpa`, of 200 rounds, "
    "the lead of all terms together comes later."
)


def table(scale: Scale) -> PaperTable:
    """Return the paper's rounds with three seeds, or fewer rounds with one."""
    own, num_seeds = (SMALL, 1) if scale == "cpu" else (CUDA, 3)
    orders = [("all", "ge", "none"), ("all", "po", "none"), ("all", "ge and po"), ("ad and ge", "ge")]
    settings = (*fedpa.SETTINGS, *own)
    federation = Federation("MNIST, Dirichlet 0.1, by the terms", MNIST, settings, ROWS, orders, num_seeds)
    about = [fedpa.ABOUT, ABOUT, *([SMALLER] if scale == "cpu" else [])]
    return PaperTable(about, [federation])
