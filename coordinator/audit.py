"""What `coordinator audit` tells: how far class statistics give away whose samples they were made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coordinator.store.run_folder import RunFolder
from models.audit import Finding, audit, kept_features
from models.spec import ConfigError


def audit_run(path: Path) -> dict[int, list[Finding]]:
    """Return the findings by the round whose features the run kept.

    Raises:
        ConfigError: this is no run folder, or no client has left features in it.
    """
    folder = RunFolder.open(path)
    kept: dict[int, dict[str, dict[str, np.ndarray]]] = {}
    for client in sorted((folder.path / "clients").glob("*")):
        for round, arrays in kept_features(client).items():
            kept.setdefault(round, {})[client.name] = arrays
    if not kept:
        raise ConfigError(
            f"{path}: expected features of clients in clients/*/features-*.safetensors; simulate or loopback with "
            "[privacy] audit = true writes them (devices keep their own)"
        )
    return {round: audit(features) for round, features in sorted(kept.items())}


def format_audit(findings: dict[int, list[Finding]]) -> str:
    """Return them as aligned lines, with what chance would give."""
    header = ("round", "attack", "prototypes", "samples each", "AUROC", "weighted", "AUPRC", "lift", "TPR at 1 % FPR")
    rows = [header, *(_cells(round, each) for round, found in findings.items() for each in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*lines, "by chance: AUROC 0.5, lift 1, TPR 0.01"])


def _cells(round: int, finding: Finding) -> Sequence[str]:
    attack, num_prototypes, mean_positives, *figures = finding
    return (str(round), attack, str(num_prototypes), f"{mean_positives:.1f}", *(f"{each:.3f}" for each in figures))
