"""GFPL, Tables 1 and 2: w-way 100-shot CIFAR-10, and each of GFPL's parts left out."""

from __future__ import annotations

from tests.benchmarks.papers import gfpl
from tests.benchmarks.papers.samples import CIFAR10
from tests.benchmarks.papers.study import CUDA, Federation, PaperTable, Row, Scale

SETTINGS = (
    *gfpl.SETTINGS,
    "data.pool=train",
    "data.ways_half_range=1",
    "data.shots=100",
    "data.test_shots=15",
    "training.batch_size=32",
)

SMALL = ("model.feature_dim=50", "data.shots=50", "data.test_shots=40", "run.num_rounds=20")
WHOLE = ("model.name=resnet18", "model.feature_dim=512", "run.num_rounds=100", *CUDA)
WIDE = ("method.projection_dim=128",)

NEITHER = ("method.dual_classifier=false", "method.pseudo_features=false")

PAPER = {
    "local": {3: 67.72, 4: 55.62, 5: 51.64},
    "FedProto": {3: 72.49, 4: 67.12, 5: 65.08},
    "GFPL": {3: 74.23, 4: 70.22, 5: 68.72},
    "GFPL without DCS": {4: 64.47},
    "GFPL without PFG": {4: 67.24},
    "GFPL without both": {4: 55.62},
}

ORDERS = (
    ("GFPL", "FedProto", "local"),
    ("GFPL", "GFPL without PFG", "GFPL without DCS", "GFPL without both"),
)

ABOUT = (
    "As in the paper: 20 clients of w - 1 to w + 1 classes, 100 or 101 samples of each to train on, batches of 32, "
    "mixtures exchanged in every tenth round. Nets are trained from scratch, where the paper's setting, which is "
    "FedProto's, begins with ImageNet's weights: its level is out of reach."
)
SMALLER = (
    "At this scale: w = 4, 50 shots, 20 rounds of which two exchange mixtures, a net of three convolutions instead of "
    "ResNet18, one seed, 40 test samples of a class."
)


def table(scale: Scale) -> PaperTable:
    """Return the paper's rows on ResNet18, or those of w = 4 on a small net."""
    if scale == "cpu":
        return PaperTable([ABOUT, SMALLER], [_federation(4, SMALL, (), 1)])
    about = "ResNet18, 512 features projected to 128, 100 rounds for all rows, five seeds, 15 test samples of a class."
    return PaperTable([ABOUT, about], [_federation(ways, WHOLE, WIDE, 5) for ways in (3, 4, 5)])


def _federation(ways: int, own: tuple[str, ...], of_gfpl: tuple[str, ...], num_seeds: int) -> Federation:
    methods = {**gfpl.METHODS, "GFPL without both": (gfpl.OWN, *NEITHER)}
    rows = [
        Row(name, (*settings, *(of_gfpl if gfpl.OWN in settings else ())), PAPER[name].get(ways))
        for name, settings in methods.items()
    ]
    return Federation(f"w = {ways}", CIFAR10, (*SETTINGS, *own, f"data.ways={ways}"), rows, ORDERS, num_seeds)
