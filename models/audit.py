"""Membership inference: can one who sees a client's mean and variance of a class tell which samples were that client's?

The attacks of appendix H of "Federated Class-Incremental Learning with Hierarchical Generative Prototypes". For each
client and class of two samples or more, all samples of the class are candidates: those of this client are to be found
among those of the others. A client keeps two kinds of features of its train samples: `features`, made by its own net
after training, are what its mean and variance are of; `candidates`, made by the net as it came, are what one sees who
has that net and the samples. Where clients do not share a net theirs differ, which alone gives them away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from models import checkpoint
from models.spec import missing_package

_NAME = re.compile(r"features-(\d+)\.safetensors")

_MIN_VARIANCE = 1e-8

_MAX_FALSE_SHARE = 0.01

Score = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def keep_features(folder: Path, round: int, features: Mapping[str, np.ndarray]) -> None:
    """Write a client's `features`, `candidates` and `labels` of a round into its folder."""
    checkpoint.write(folder / f"features-{round}.safetensors", features)


def kept_features(folder: Path) -> dict[int, dict[str, np.ndarray]]:
    """Return what `keep_features` wrote into a client's folder, by round."""
    found = {_NAME.fullmatch(path.name): path for path in sorted(folder.glob("features-*"))}
    return {int(name[1]): checkpoint.read(path)[0] for name, path in found.items() if name}


class Finding(NamedTuple):
    """How well an attack ranks a client's own samples first, on average over prototypes; chance is 0.5, 1 and 0.01."""

    attack: str
    num_prototypes: int
    mean_positives: float
    auroc: float
    weighted_auroc: float
    """Weighted by a prototype's own samples."""
    auprc: float
    auprc_lift: float
    """The area under precision and recall over the share of own samples, which is what chance has."""
    tpr_at_1_fpr: float
    """The share of own samples that is found with at most 1 % of the others among them."""


def gaussian(features_BD: np.ndarray, mean_D: np.ndarray, variance_D: np.ndarray) -> np.ndarray:
    """Return log-likelihoods [B] under a diagonal Gaussian, up to a constant."""
    log_likelihoods: np.ndarray = -0.5 * ((features_BD - mean_D) ** 2 / variance_D + np.log(variance_D)).sum(axis=1)
    return log_likelihoods


def mahalanobis(features_BD: np.ndarray, mean_D: np.ndarray, variance_D: np.ndarray) -> np.ndarray:
    """Return negative Mahalanobis distances [B]; they rank as `gaussian` does where there is one prototype."""
    distances: np.ndarray = np.sqrt(((features_BD - mean_D) ** 2 / variance_D).sum(axis=1))
    return -distances


def cosine(features_BD: np.ndarray, mean_D: np.ndarray, variance_D: np.ndarray) -> np.ndarray:
    """Return cosines [B] with the mean; 0 where a length is 0."""
    lengths = np.linalg.norm(features_BD, axis=1) * np.linalg.norm(mean_D)
    cosines: np.ndarray = features_BD @ mean_D / np.where(lengths > 0, lengths, 1)
    return cosines


ATTACKS: dict[str, Score] = {"gaussian": gaussian, "mahalanobis": mahalanobis, "cosine": cosine}


def audit(kept: Mapping[str, Mapping[str, np.ndarray]]) -> list[Finding]:
    """Return what each attack finds, nothing where no class is held by two clients.

    Args:
        kept: of each client, `features` and `candidates` [B, D] and `labels` [B] of its train samples.

    Raises:
        ConfigError: scikit-learn is not installed.
    """
    cases = list(_cases(kept))
    return [_finding(name, score, cases) for name, score in ATTACKS.items()] if cases else []


class _Case(NamedTuple):
    """One prototype, and all candidates; `is_own_B` says which are the client's."""

    mean_D: np.ndarray
    variance_D: np.ndarray
    candidates_BD: np.ndarray
    is_own_B: np.ndarray


def _cases(kept: Mapping[str, Mapping[str, np.ndarray]]) -> Iterator[_Case]:
    clients = sorted(kept)
    candidates_BD = np.concatenate([kept[client]["candidates"] for client in clients]).astype(np.float64)
    labels_B = np.concatenate([kept[client]["labels"] for client in clients])
    owners_B = np.repeat(clients, [len(kept[client]["labels"]) for client in clients])
    for client in clients:
        own_labels_B = kept[client]["labels"]
        for label in np.unique(own_labels_B):
            own_BD = kept[client]["features"][own_labels_B == label].astype(np.float64)
            of_class_B = labels_B == label
            if 2 <= len(own_BD) < of_class_B.sum():
                variance_D = own_BD.var(axis=0, ddof=1) + _MIN_VARIANCE
                is_own_B = owners_B[of_class_B] == client
                yield _Case(own_BD.mean(axis=0), variance_D, candidates_BD[of_class_B], is_own_B)


def _finding(name: str, score: Score, cases: list[_Case]) -> Finding:
    try:
        from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
    except ImportError:
        raise missing_package("an audit needs", "scikit-learn", "train") from None

    aurocs, auprcs, lifts, found = [], [], [], []
    for case in cases:
        scores_B = score(case.candidates_BD, case.mean_D, case.variance_D)
        aurocs.append(roc_auc_score(case.is_own_B, scores_B))
        auprcs.append(average_precision_score(case.is_own_B, scores_B))
        lifts.append(auprcs[-1] / case.is_own_B.mean())
        false_shares, true_shares, _ = roc_curve(case.is_own_B, scores_B, drop_intermediate=False)
        found.append(true_shares[false_shares <= _MAX_FALSE_SHARE].max())
    positives = [int(case.is_own_B.sum()) for case in cases]
    means = [float(np.mean(each)) for each in (positives, aurocs, auprcs, lifts, found)]
    weighted = float(np.average(aurocs, weights=positives))
    return Finding(name, len(cases), means[0], means[1], weighted, *means[2:])
