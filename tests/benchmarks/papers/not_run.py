"""What the papers compare with or on, and is not run here."""

from __future__ import annotations

NOT_RUN: tuple[tuple[str, str], ...] = (
    ("FedPer, FedRep, LG-FedAvg, FedDistill, FedGH, FedHKD", "baselines of the papers that this project does not have"),
    ("EMNIST, FEMNIST, CIFAR-100, Tiny ImageNet, AG News", "data sets that were not at hand"),
)
"""What, and why."""
