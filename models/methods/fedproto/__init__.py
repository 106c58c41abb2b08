"""Federated prototype learning: clients share one mean feature per class and pull their own features towards it.

Y. Tan, G. Long, L. Liu, T. Zhou, Q. Lu, J. Jiang, C. Zhang. "FedProto: Federated Prototype Learning across
Heterogeneous Clients." AAAI 2022, https://arxiv.org/abs/2105.00243 (equation numbers are this paper's).

Deviations: the distance of the regulariser is the squared error averaged over the batch and the feature dimension, as
in the authors' code; local prototypes are computed in a pass of their own after training, over the whole train part;
a class that no client sent keeps its last global prototype. Eq. (6) may be a trimmed mean or a median over the clients
instead (`aggregation`, see `models.robust`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.methods.api import Exchange, Facts, Method
from models.robust import Aggregation, check_aggregation
from models.spec import NotNegativeReal, Section
from wire.payload import Record, class_ids, counts, values


class Config(Section, frozen=True):
    """How clients are weighed and aggregated in a global prototype, and lambda of Eq. (7), `regularizer_weight`."""

    weighting: Literal["counts", "uniform"] = "counts"
    aggregation: Aggregation = "mean"
    regularizer_weight: NotNegativeReal = 1.0


@dataclass(frozen=True)
class Downlink(Record):
    """The global prototypes of all classes known so far."""

    prototypes: np.ndarray = values("C", "D")
    classes: np.ndarray = class_ids("C")


@dataclass(frozen=True)
class Uplink(Record):
    """The local prototypes of the classes that the client holds, and its train samples of each."""

    prototypes: np.ndarray = values("C", "D")
    counts: np.ndarray = counts("C")
    classes: np.ndarray = class_ids("C")


def _downlink_dims(facts: Facts) -> dict[str, int]:
    return {"C": facts.num_classes_known, "D": facts.feature_dim}


def _uplink_dims(facts: Facts) -> dict[str, int]:
    return {"C": facts.num_classes_held, "D": facts.feature_dim}


METHODS = (
    Method(
        name="fedproto",
        summary="mean feature per class, up and down",
        paper="Tan et al., AAAI 2022",
        config=Config,
        exchanges=(Exchange("prototypes", Downlink, Uplink, _downlink_dims, _uplink_dims),),
        server="models.methods.fedproto.server:FedProtoServer",
        client="models.methods.fedproto.client:FedProtoClient",
        client_numpy="models.methods.fedproto.client_numpy:FedProtoNumpyClient",
        default_rule="local_prototype",
        global_rules=("global_prototype",),
        check=check_aggregation,
        is_default=True,
    ),
)
