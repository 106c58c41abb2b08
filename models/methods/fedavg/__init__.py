"""Federated averaging.

B. McMahan, E. Moore, D. Ramage, S. Hampson, B. Agüera y Arcas. "Communication-Efficient Learning of Deep Networks from
Decentralized Data." AISTATS 2017, https://arxiv.org/abs/1602.05629 (its equation numbers are ours: Algorithm 1).

Deviations: the clients' common initial weights come from the run's seed and do not travel; batch norm's running
statistics are averaged with the same weights as the parameters, and counted. The average may be a trimmed mean
or a median over the clients instead (`aggregation`, see `models.robust`), which holds all models of a round at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.methods.api import Exchange, Facts, Method
from models.robust import Aggregation, check_aggregation
from models.spec import Section
from wire.payload import Record, counts, values


class Config(Section, frozen=True):
    """How the models are averaged."""

    aggregation: Aggregation = "mean"


@dataclass(frozen=True)
class Downlink(Record):
    """The averaged model; both arrays are empty before the first average, when each client's own init stands."""

    parameters: np.ndarray = values("P")
    buffers: np.ndarray = values("F")


@dataclass(frozen=True)
class Uplink(Record):
    """The trained model and its weight; both arrays are empty where `num_train` is 0."""

    parameters: np.ndarray = values("P")
    buffers: np.ndarray = values("F")
    num_train: np.ndarray = counts("one")


def _downlink_dims(facts: Facts) -> dict[str, int]:
    return _model_dims(facts) if facts.rounds_completed else {"P": 0, "F": 0}


def _uplink_dims(facts: Facts) -> dict[str, int]:
    return {**(_model_dims(facts) if facts.num_train else {"P": 0, "F": 0}), "one": 1}


def _model_dims(facts: Facts) -> dict[str, int]:
    return {"P": facts.num_parameters, "F": facts.num_buffers}


METHODS = (
    Method(
        name="fedavg",
        summary="weighted average of whole models",
        paper="McMahan et al., AISTATS 2017",
        config=Config,
        exchanges=(Exchange("average", Downlink, Uplink, _downlink_dims, _uplink_dims),),
        server="models.methods.fedavg.server:FedAvgServer",
        client="models.methods.fedavg.client:FedAvgClient",
        default_rule="global_head",
        global_rules=("global_head",),
        check=check_aggregation,
        shares_model=True,
    ),
)
