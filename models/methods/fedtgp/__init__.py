"""FedTGP: the server trains the global prototypes, so that those of different classes keep apart.

J. Zhang, Y. Liu, Y. Hua, J. Cao. "FedTGP: Trainable Global Prototypes with Adaptive-Margin-Enhanced Contrastive
Learning for Data and Model Heterogeneity in Federated Learning." AAAI 2024, https://arxiv.org/abs/2401.03230. It shares
FedProto's client; its server half as numbered here, with c_ij client i's local prototype of class j, d the Euclidean
distance, and v_j the vector of class j that the server keeps:

    (1)  p_j = F(v_j), F two linear layers with a ReLU between them                   the global prototype of class j
    (2)  m = min(tau, max over j of min over k != j of d(c_j, c_k)), c_j = mean over i of c_ij       the margin
    (3)  loss of c_ij = -log [ e^-(d(c_ij, p_j) + m) / (e^-(d(c_ij, p_j) + m) + sum over k != j of e^-d(c_ij, p_k)) ]

Deviations: (2) takes the means over this round's uploads, as the authors' code does, and is tau where only one class
was uploaded. Global prototypes of all classes go down in every round, together with the ids of those that some client
has uploaded: no others take part in local training or in prediction. The clients' regulariser is FedProto's squared
error averaged over the d features, for which the authors advise a lambda of 10 at d = 500: so it is d / 50 for any d.
With another `aggregation` than `mean` (see `models.robust`) each c_ij is replaced by that aggregate of its class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.methods.api import Exchange, Facts, Method
from models.methods.fedproto import METHODS as BASELINES
from models.robust import Aggregation, check_aggregation
from models.spec import ConfigError, NotNegativeReal, Positive, PositiveReal, RunSpec, Section
from wire.payload import Record, class_ids, values


class Config(Section, frozen=True):
    """Lambda, the `regularizer_weight`; and how the server trains: on what, tau of Eq. (2), epochs, step and batch."""

    regularizer_weight: NotNegativeReal | Literal["auto"] = "auto"
    aggregation: Aggregation = "mean"
    margin_threshold: PositiveReal = 100.0
    server_epochs: Positive = 100
    server_lr: PositiveReal = 0.01
    server_batch_size: Positive = 32


@dataclass(frozen=True)
class Downlink(Record):
    """The global prototypes of all classes, and the classes that some client has uploaded."""

    prototypes: np.ndarray = values("K", "D")
    classes: np.ndarray = class_ids("C")


@dataclass(frozen=True)
class Uplink(Record):
    """The local prototypes of the classes that the client holds."""

    prototypes: np.ndarray = values("C", "D")
    classes: np.ndarray = class_ids("C")


def squared_error_weight(feature_dim: int) -> float:
    """Return lambda where nothing else is said: 10 for 500 features, and as much of the squared distance for others."""
    return feature_dim / 50


def _check(spec: RunSpec, config: Config) -> None:
    check_aggregation(spec, config)
    if spec.num_classes < 2:
        raise ConfigError(f"{spec.method}: expected at least 2 classes to keep apart, got {spec.classes}")


def _downlink_dims(facts: Facts) -> dict[str, int]:
    return {"K": facts.num_classes, "D": facts.feature_dim, "C": facts.num_classes_known}


def _uplink_dims(facts: Facts) -> dict[str, int]:
    return {"C": facts.num_classes_held, "D": facts.feature_dim}


(_BASELINE,) = BASELINES

METHODS = (
    Method(
        name="fedtgp",
        summary="fedproto whose global prototypes are trained to keep apart",
        paper="Zhang et al., AAAI 2024",
        config=Config,
        exchanges=(Exchange("prototypes", Downlink, Uplink, _downlink_dims, _uplink_dims),),
        server="models.methods.fedtgp.server:FedTgpServer",
        client="models.methods.fedtgp.client:FedTgpClient",
        default_rule=_BASELINE.default_rule,
        global_rules=_BASELINE.global_rules,
        check=_check,
    ),
)
