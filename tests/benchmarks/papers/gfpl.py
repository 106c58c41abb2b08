"""GFPL, Table 1: w-way 100-shot MNIST, beside local training, FedProto and GFPL's own parts."""

from __future__ import annotations

from tests.benchmarks.papers.samples import MNIST
from tests.benchmarks.papers.study import CUDA, Federation, PaperTable, Row, Scale

SETTINGS: tuple[str, ...] = (
    "data.partition=w-way-s-shot",
    "data.num_clients=20",
    "data.ways_half_range=2",
    "data.shots=99",
    "data.shots_half_range=1",
    "data.test_shots=40",
    "model.name=cnn",
    "model.feature_dim=50",
    "run.num_rounds=80",
    "training.local_epochs=1",
    "training.batch_size=4",
    "training.lr=0.01",
    "training.momentum=0.5",
    "training.threads=1",
    "evaluation.every=10",
)
"""FedProto's code, whose setting it is, draws s - 1 or s shots of MNIST for s = 100 and a half-range of 2."""

OWN = "method.name=gfpl"

METHODS = {
    "local": ("method.name=local_only",),
    "FedProto": ("method.name=fedproto",),
    "GFPL": (OWN,),
    "GFPL without DCS": (OWN, "method.dual_classifier=false"),
    "GFPL without PFG": (OWN, "method.pseudo_features=false"),
}

AVERAGING = {
    "FedAvg": ("method.name=fedavg", "evaluation.rule=head"),
    "FedProx": ("method.name=fedprox", "evaluation.rule=head"),
}
"""Only at the paper's own scale."""

PAPER = {
    "local": {3: 94.05, 4: 93.35, 5: 92.92},
    "FedProto": {3: 97.13, 4: 96.80, 5: 96.70},
    "GFPL": {3: 98.91, 4: 98.01, 5: 97.83},
    "FedAvg": {3: 95.04, 4: 94.32, 5: 93.22},
    "FedProx": {3: 96.26, 4: 96.40, 5: 95.65},
}
"""Its parts were not left out on MNIST there."""

ORDERS = (("GFPL", "FedProto", "local"), ("GFPL", "GFPL without PFG", "local"), ("GFPL", "GFPL without DCS", "local"))

ABOUT = (
    "As in the paper: 20 clients of w - 2 to w + 2 digits, 99 or 100 samples of each to train on and 40 to test, 80 "
    "rounds of one epoch on batches of 4, every tenth of which exchanges mixtures. The net is another: three "
    "convolutions with batch norm and 50 features, where FedProto's code has two, and a hidden layer, without."
)
SMALLER = (
    "At this scale: w = 3 only, one seed where the paper has five. Local training by itself tells a client's few "
    "digits apart, so there is little left to gain."
)
WHOLE = "All rows have 80 rounds; the paper stopped FedProto after 100, FedAvg after 150 and FedProx after 110."


def table(scale: Scale) -> PaperTable:
    """Return the paper's setting, or a third of it with one seed."""
    if scale == "cpu":
        return PaperTable([ABOUT, SMALLER], [_federation(3, METHODS, (), 1)])
    return PaperTable([ABOUT, WHOLE], [_federation(ways, {**METHODS, **AVERAGING}, CUDA, 5) for ways in (3, 4, 5)])


def _federation(ways: int, methods: dict[str, tuple[str, ...]], own: tuple[str, ...], num_seeds: int) -> Federation:
    rows = [Row(name, settings, PAPER.get(name, {}).get(ways)) for name, settings in methods.items()]
    return Federation(f"w = {ways}", MNIST, (*SETTINGS, f"data.ways={ways}", *own), rows, ORDERS, num_seeds)
