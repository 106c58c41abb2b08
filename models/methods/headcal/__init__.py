"""Head calibration: class statistics of frozen features go up, and a head trained on draws from them comes down.

After M. Luo, F. Chen, D. Hu, Y. Zhang, J. Liang, J. Feng. "No Fear of Heterogeneity: Classifier Calibration for
Federated Learning with Non-IID Data." NeurIPS 2021, https://arxiv.org/abs/2106.05001.

Every client has the same feature extractor, and nobody trains it: a client sends mean and diagonal variance of its
features for each class, once it has two samples of it. The server half draws features from the Gaussians of all
clients, first a class, then a client, and trains a linear head on them from nothing. No model and no gradient travels,
and a round later than a client's first changes nothing that it sends unless its samples change.

Where `[privacy]` adds noise, mean and variance are made of noised statistics of all classes, and those classes go up of
which the client has announced two samples.

Each client also trains a head of its own, by cross-entropy on its own samples alone: rule `head`. The global one does
not touch it.

Deviations: covariances are diagonal; clients stay apart in the mixture, where the paper pools each class into one
Gaussian; the extractor is frozen from the start, where the paper calibrates after federated training; the head is
trained on drawn features less their mean and over their deviation, which then become part of it, so that one learning
rate does for extractors whose features are small or far from 0. A class that no
client has two samples of is not in the head, and never predicted by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.generative import RebalancingConfig, check_gaussians
from models.methods.api import Exchange, Facts, Method
from models.spec import ConfigError, Positive, PositiveReal, RunSpec
from wire.payload import Record, class_ids, counts, values


class Config(RebalancingConfig, frozen=True):
    """How the head is trained on features that are drawn; classes count the same, and variances are taken as sent."""

    rebalance_epochs: Positive = 20
    rebalance_lr: PositiveReal = 0.1
    variance_scale: PositiveReal = 1.0
    class_weighting: Literal["counts", "equal"] = "equal"


@dataclass(frozen=True)
class Downlink(Record):
    """The head of all classes, a row [D + 1] of weights, then the bias, for each, and the samples behind each row.

    A class of no samples is never predicted. Without any head yet both are empty.
    """

    head: np.ndarray = values("S", "H")
    counts: np.ndarray = counts("S")


@dataclass(frozen=True)
class Uplink(Record):
    """Mean and variance of the features of each class with two samples on the client, and its samples."""

    means: np.ndarray = values("C", "D")
    variances: np.ndarray = values("C", "D")
    counts: np.ndarray = counts("C")
    classes: np.ndarray = class_ids("C")

    def check(self) -> None:
        """Refuse what no samples can have given.

        Raises:
            RecordError: a negative variance, or a Gaussian of fewer than two samples.
        """
        check_gaussians(self.variances, self.counts)


def _downlink_dims(facts: Facts) -> dict[str, int]:
    return {"S": facts.num_classes if facts.rounds_completed else 0, "H": facts.feature_dim + 1}


def _uplink_dims(facts: Facts) -> dict[str, int]:
    return {"C": sum(count > 1 for count in facts.class_counts), "D": facts.feature_dim}


def _check(spec: RunSpec, config: Config) -> None:
    if spec.model.init == "per_client":
        raise ConfigError("[model] init = 'per_client': expected 'common', as all clients share one frozen extractor")


METHODS = (
    Method(
        name="headcal",
        summary="class statistics of a frozen net up, and a head trained on draws from them down",
        paper="after Luo et al., NeurIPS 2021",
        config=Config,
        exchanges=(Exchange("statistics", Downlink, Uplink, _downlink_dims, _uplink_dims),),
        server="models.methods.headcal.server:HeadcalServer",
        client="models.methods.headcal.client:HeadcalClient",
        client_numpy="models.methods.headcal.client_numpy:HeadcalNumpyClient",
        default_rule="global_head",
        global_rules=("global_head",),
        check=_check,
        net="models.methods.headcal.nets:frozen",
        shares_model=True,
        frozen_extractor=True,
    ),
)
