"""FedNova: federated averaging that a client with many local steps does not dominate.

J. Wang, Q. Liu, H. Liang, G. Joshi, H. V. Poor. "Tackling the Objective Inconsistency Problem in Heterogeneous
Federated Optimization." NeurIPS 2020, https://arxiv.org/abs/2007.07481. Its equations as numbered here, with w the
global model, w_i client i's after tau_i steps, rho the momentum and p_i the client's share of all train samples:

    (1)  |a_i| = sum over k = 1 .. tau_i of (1 - rho^k) / (1 - rho)       tau_i without momentum
    (2)  d_i = (w - w_i) / |a_i|                                          the learning rate is within d_i
    (3)  tau_eff = sum over i of p_i |a_i|
    (4)  w <- w - tau_eff * sum over i of p_i d_i

Deviations: the paper leaves tau_eff free, (3) is its authors' choice, with which equal numbers of steps give federated
averaging; of Adam, whose steps are no linear sum of gradients, only the number of steps counts, as without momentum;
batch norm's running statistics are averaged as in federated averaging, and counted. No tau_i travels: the server half
counts the steps that the run's settings make of a client's train samples. The clients' initial weights do not travel to
them, so the server half learns w in round 1 from the clients, which send their start along.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from models.methods.api import Exchange, Facts, Method
from models.methods.fedavg import METHODS as BASELINES
from models.spec import Section, TrainingConfig
from models.steps import count_steps
from wire.payload import Record, counts, values


class Config(Section, frozen=True):
    """FedNova has no settings of its own."""


@dataclass(frozen=True)
class Uplink(Record):
    """The normalised update d_i and its weight; all arrays but `num_train` are empty where that is 0."""

    direction: np.ndarray = values("P")
    buffers: np.ndarray = values("F")
    start: np.ndarray = values("S")
    """Where the client started; empty once there is a global model."""
    num_train: np.ndarray = counts("one")


def accumulated_steps(num_train: int, training: TrainingConfig) -> float:
    """Return |a_i|, by how much a local training with so many samples moves a net along an even gradient."""
    num_steps = count_steps(num_train, training)
    rho = training.momentum if training.optimizer == "sgd" else 0.0
    return (num_steps - rho * (1 - rho**num_steps) / (1 - rho)) / (1 - rho)  # Eq. (1), summed


(_BASELINE,) = BASELINES
(_AVERAGE,) = _BASELINE.exchanges


def _uplink_dims(facts: Facts) -> dict[str, int]:
    sizes = _AVERAGE.uplink_dims(facts)
    return {**sizes, "S": 0 if facts.rounds_completed else sizes["P"]}


METHODS = (
    Method(
        name="fednova",
        summary="fedavg of updates, each normalised by its local steps",
        paper="Wang et al., NeurIPS 2020",
        config=Config,
        exchanges=(Exchange("average", _AVERAGE.downlink, Uplink, _AVERAGE.downlink_dims, _uplink_dims),),
        server="models.methods.fednova.server:FedNovaServer",
        client="models.methods.fednova.client:FedNovaClient",
        default_rule=_BASELINE.default_rule,
        global_rules=_BASELINE.global_rules,
        shares_model=True,
    ),
)
