"""The terms of FedPA's two objectives, and what is told of generated features."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch.nn.functional import cross_entropy


class Classifiers(NamedTuple):
    """The linear classifiers of a round's clients, and each client's share p of a class, 0 where nobody holds it."""

    weights_KCD: torch.Tensor
    biases_KC: torch.Tensor
    shares_KC: torch.Tensor


def distances(features_BD: torch.Tensor, targets_BD: torch.Tensor, distance: Literal["l2", "mse"]) -> torch.Tensor:
    """Return the distance of each feature from its target, [B]: the summand of Eqs. (6) and (10)."""
    differences_BD = features_BD - targets_BD
    return differences_BD.norm(dim=1) if distance == "l2" else differences_BD.square().mean(dim=1)


def fidelity(
    features_BD: torch.Tensor, labels_B: torch.Tensor, classifiers: Classifiers, literal: bool = False
) -> torch.Tensor:
    """Return L_fid: how badly the classifiers recognise the features, each by its share of their classes.

    Args:
        features_BD: generated features.
        labels_B: their classes, int64.
        classifiers: of the clients.
        literal: divide by the number of clients.
    """
    weights_KCD, biases_KC, shares_KC = classifiers
    logits_KCB = torch.einsum("kcd,bd->kcb", weights_KCD, features_BD) + biases_KC[:, :, None]
    losses_KB = cross_entropy(logits_KCB, labels_B.expand(len(weights_KCD), -1), reduction="none")
    total = (shares_KC[:, labels_B] * losses_KB).sum() / len(labels_B)  # Eq. (5), but for the number of clients
    return total / len(weights_KCD) if literal else total


def diversity(
    features_BD: torch.Tensor,
    noise_BZ: torch.Tensor,
    labels_B: torch.Tensor,
    form: Literal["per_dim", "literal"] = "per_dim",
    pairs: Literal["same", "different", "all"] = "same",
) -> torch.Tensor:
    """Return L_div in (0, 1]: the smaller, the more features differ where their noises do, over the chosen pairs.

    Args:
        features_BD: generated features.
        noise_BZ: what they were generated from.
        labels_B: their classes.
        form: `literal` for norms, `per_dim` for means over the dimensions.
        pairs: of one class, of two different ones, or all; the mean is over all B * B of them anyway.
    """
    features_BBD, noise_BBZ = features_BD[:, None] - features_BD, noise_BZ[:, None] - noise_BZ
    if form == "literal":
        products_BB = features_BBD.norm(dim=2) * noise_BBZ.norm(dim=2)
    else:
        products_BB = features_BBD.abs().mean(dim=2) * noise_BBZ.square().mean(dim=2)
    if pairs != "all":
        is_same_BB = labels_B[:, None] == labels_B
        products_BB = products_BB * (is_same_BB if pairs == "same" else ~is_same_BB)
    loss: torch.Tensor = (-products_BB.mean()).exp()  # Eq. (7)
    return loss


def class_distances(features_BD: torch.Tensor, labels_B: torch.Tensor) -> tuple[float, float]:
    """Return the mean distance of two features of one class, and of two classes; NaN where there is no such pair."""
    distances_BB = torch.cdist(features_BD, features_BD, compute_mode="donot_use_mm_for_euclid_dist")
    is_same_BB = labels_B[:, None] == labels_B
    is_other_BB = ~torch.eye(len(labels_B), dtype=torch.bool, device=labels_B.device)
    return distances_BB[is_same_BB & is_other_BB].mean().item(), distances_BB[~is_same_BB].mean().item()
