"""TinyProto, Table 2: other widths of features, more clients, other degrees of heterogeneity."""

from __future__ import annotations

from tests.benchmarks.papers.samples import CIFAR10, DIGITS
from tests.benchmarks.papers.study import Federation, PaperTable, Row, Scale
from tests.benchmarks.papers.tinyproto import ABOUT, DIRICHLET, FOUR_NETS, SETTINGS, WHOLE

COLUMNS: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    "d = 100": (("model.feature_dim=100",), (38.91, 44.30, 39.60, 47.60)),
    "d = 1000": (("model.feature_dim=1000",), (40.37, 42.92, 41.02, 47.32)),
    "50 clients": (("data.num_clients=50",), (40.72, 45.30, 40.39, 47.85)),
    "Dirichlet 0.01": (("data.alpha=0.01",), (64.85, 70.99, 68.24, 74.35)),
    "Dirichlet 0.5": (("data.alpha=0.5",), (22.31, 24.11, 19.46, 26.68)),
}
"""What each column varies, and the paper's accuracies of FedProto, FedTGP, TinyProto-FP and -FT on CIFAR-100."""

SMALL = ("run.num_rounds=10", "data.min_size=1", "training.threads=1")

SMALLER = (
    "At this scale: scikit-learn's digits, 10 rounds of one small net, one seed, too few to tell methods apart. The "
    "paper's accuracies are for CIFAR-100; those for 50 clients are the same as those of its Table 1 for 20."
)

ORDER = ("TinyProto-FT", "FedTGP", "FedProto")


def table(scale: Scale) -> PaperTable:
    """Return CIFAR-10 on four nets, or digits on a small one."""
    samples, own, num_seeds = (DIGITS, SMALL, 1) if scale == "cpu" else (CIFAR10, FOUR_NETS, 3)
    federations = [
        Federation(title, samples, (*SETTINGS, *DIRICHLET, *own, *varied), _rows(varied, paper), [ORDER], num_seeds)
        for title, (varied, paper) in COLUMNS.items()
    ]
    whole = f"CIFAR-10 instead of the paper's CIFAR-100. {WHOLE}"
    return PaperTable([ABOUT, SMALLER if scale == "cpu" else whole], federations)


def _rows(varied: tuple[str, ...], paper: tuple[float, ...]) -> list[Row]:
    width = next((int(setting.partition("=")[2]) for setting in varied if "feature_dim" in setting), 500)
    methods = {
        "FedProto": fedproto(width),
        "FedTGP": ("method.name=fedtgp",),
        "TinyProto-FP": ("method.name=tinyproto-fp", "method.prototype_dim=50"),
        "TinyProto-FT": ("method.name=tinyproto-ft", "method.prototype_dim=50"),
    }
    return [Row(name, own, accuracy) for (name, own), accuracy in zip(methods.items(), paper, strict=True)]


def fedproto(width: int) -> tuple[str, ...]:
    """Return FedProto, its regulariser as strong as with 500 features."""
    return ("method.name=fedproto", "method.weighting=uniform", f"method.regularizer_weight={width / 50:g}")
