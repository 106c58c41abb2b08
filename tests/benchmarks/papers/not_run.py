"""What the papers compare with or on, and is not run here."""

from __future__ import annotations

from collections.abc import Collection

from tests.benchmarks.papers.findings import result_name
from tests.benchmarks.papers.tables import NAMES

NOT_RUN: tuple[tuple[str, str], ...] = (
    (
        "FedPer, FedRep, LG-FedAvg, FedDistill, FedGH, FedHKD, FML, FedKD, FeSEM, FedFA, FedEnsemble, VHL, FAST, and "
        "the class-incremental methods that HGP is compared with",
        "baselines of the papers that this project does not have",
    ),
    (
        "EMNIST, FEMNIST, CIFAR-100, Tiny ImageNet, AG News, GTSRB, Flowers-102, CelebA, ImageNet-R, ImageNet-A, "
        "EuroSAT, Cars-196, CUB-200",
        "data sets that were not at hand",
    ),
    (
        "GFPL, Figures 3b to 7; HGP, Figure 4; FedPA, Figures 4 and 5; RefProtoFL, Figure 2",
        "curves and pictures without numbers to compare with",
    ),
)
"""What, and why."""


def not_run(results: Collection[str]) -> list[list[str]]:
    """Return what is not run, and the tables at the papers' own scale that are not among the results of these names."""
    missing = [name for name in NAMES if result_name(name, "gpu") not in results]
    at_gpu = (f"{', '.join(missing)} with SCALE=gpu", "no machine with CUDA was at hand")
    return [list(each) for each in (*NOT_RUN, *([at_gpu] if missing else []))]
