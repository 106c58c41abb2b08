"""Membership inference, on features of which it is known how far they give their client away."""

from pathlib import Path

import numpy as np
import pytest

from models.audit import ATTACKS, audit, keep_features, kept_features

pytest.importorskip("sklearn")

Kept = dict[str, dict[str, np.ndarray]]


def client(mean: float, num: int, labels: list[int], seed: int) -> dict[str, np.ndarray]:
    """Features around 1 plus `mean`, of these labels in turn."""
    features = (1 + mean + np.random.default_rng(seed).normal(size=(num, 4))).astype(np.float32)
    return {"features": features, "candidates": features, "labels": np.resize(labels, num)}


def test_clients_that_are_far_apart_are_told_apart() -> None:
    found = audit({"a": client(0, 50, [0], 0), "b": client(100, 50, [0], 1)})
    assert [finding.attack for finding in found] == list(ATTACKS)
    for finding in found[:2]:
        assert (finding.auroc, finding.weighted_auroc, finding.auprc, finding.tpr_at_1_fpr) == (1, 1, 1, 1)
        assert (finding.auprc_lift, finding.num_prototypes, finding.mean_positives) == (2, 2, 50)


def test_clients_of_one_distribution_are_hardly_told_apart() -> None:
    found = audit({name: client(0, 2000, [0], seed) for seed, name in enumerate("abcd")})
    for finding in found:
        assert finding.auroc == pytest.approx(0.5, abs=0.02)
        assert finding.auprc_lift == pytest.approx(1.0, abs=0.1)
        assert finding.tpr_at_1_fpr == pytest.approx(0.01, abs=0.01)


def test_the_two_attacks_by_variances_rank_alike() -> None:
    gaussian, mahalanobis, _ = audit({"a": client(0, 30, [0, 1], 0), "b": client(0.5, 30, [0, 1], 1)})
    assert gaussian[1:] == mahalanobis[1:]


def test_ranks_by_hand() -> None:
    a = {"features": [[0.0], [2.0]], "candidates": [[0.0], [5.0]], "labels": [0, 0]}
    b = {"features": [[9.0], [9.0]], "candidates": [[1.0], [9.0]], "labels": [0, 0]}
    kept = {name: {key: np.array(array) for key, array in each.items()} for name, each in (("a", a), ("b", b))}
    gaussian = audit(kept)[0]
    # a's mean is 1: 1, 0, 5, 9, of which 0 and 5 are its own; b's is 9: 9, 5, 1, 0, of which 9 and 1 are
    assert gaussian.auroc == (2 / 4 + 3 / 4) / 2


def test_classes_of_one_client_and_single_samples_are_no_case() -> None:
    assert audit({"a": client(0, 5, [0], 0), "b": client(0, 1, [1], 1)}) == []
    found = audit({"a": client(0, 5, [0], 0), "b": client(0, 1, [0], 1)})
    assert [finding.num_prototypes for finding in found] == [1, 1, 1]


def test_features_come_back_by_round(tmp_path: Path) -> None:
    for round in (2, 10):
        keep_features(tmp_path, round, client(round, 3, [0], 0))
    (tmp_path / "features-old.safetensors").touch()
    kept = kept_features(tmp_path)
    assert sorted(kept) == [2, 10]
    assert kept[2]["labels"].tolist() == [0, 0, 0]
