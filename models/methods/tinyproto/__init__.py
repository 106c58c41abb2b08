"""TinyProto: of each class's prototype only some features travel, scaled by how many samples it stands for.

G. Lee, D. Choi. "Communication-Efficient Heterogeneous Federated Learning with Sparse Prototypes in
Resource-Constrained Environments." AAAI 2026, whose equation numbers stand here (earlier: TinyProto,
https://arxiv.org/abs/2507.04327). Class-wise prototype sparsification (CPS) keeps s of the d features, others for each
class: Eq. (7), (8). Adaptive prototype scaling (APS) has each client send n_ij times its prototype of class j: Eq.
(10), (11). `tinyproto-fp` puts both into FedProto, `tinyproto-ft` into FedTGP; either can be switched off.

Deviations:

- Masks: the paper asks for the largest Hamming distance and its code searches among random masks of whole blocks. Here
  each class takes the s features that the classes before it have used least, at random among equals. The mean distance
  is then the largest possible, for every s; the smallest varies with the seed, and each aggregate tells it
  (`smallest_mask_distance`). The masks belong to the server half's state, whose prototypes need them.
- APS sums over clients, as the authors' code does: with the mean of Eq. (10) as printed the targets are |N_j| times too
  small for the paper's values of mu (`aps_aggregation = "mean"`). N_j are the clients that sent class j.
- mu is K / N unless the config names it, N the train samples of the clients that were there when the run began. Then
  the target of class j is its weighted mean times the size of the class over the mean size of a class: for balanced
  classes, the weighted mean itself. Clients multiply by mu before anything is encoded, so that small floats hold it.
- Where clients are absent, the sum is divided by the share of all train samples that the present ones have.
- In `tinyproto-ft` APS multiplies each upload by |N_j| before it joins FedTGP's pool, so that the mean of a class's
  uploads is the target above; the trained prototypes go down as they are. The net is as wide as what travels, although
  a place means another feature in each class; `tgp_space = "full"` puts uploads in their places among d features first.
- Without APS clients count equally, Eq. (9): n_ij never travels. Eq. (4) would divide by |N_j| twice.
- Without APS, Eq. (9) may be a trimmed mean or a median over the clients (`aggregation`, see `models.robust`; in
  `tinyproto-ft` as in `fedtgp`). With APS an outlier cannot be told from a client with many samples, and it is refused.
- The regulariser is taken at each sample, over all d features with 0 outside the mask: as the mean squared error, with
  FedTGP's lambda, d / 50 (10 at d = 500, and as strong for any d), or as the paper's distance (`regularizer = "l2"`),
  with the paper's 1. The latter's pull does not fade near its target: with small features 1 was seen to draw them all
  to 0, 0.1 not.
- The rule `global_prototype` compares features with the targets as they came, zeros and scale included, for it is
  these that training pulls the features to. The paper's rule is `local_prototype`, Eq. (12).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.methods.api import Exchange, Facts, Method
from models.methods.fedproto import METHODS as BASELINES
from models.robust import Aggregation, check_aggregation
from models.spec import ConfigError, NotNegativeReal, Positive, PositiveReal, RunSpec, Section
from wire.payload import Record, class_ids, digest_of, indices, scalar, values


class Config(Section, frozen=True):
    """CPS and its s, the `prototype_dim`; APS, its aggregation and mu; without it `aggregation`; the regulariser."""

    prototype_dim: Positive = 5
    cps: bool = True
    aps: bool = True
    aps_aggregation: Literal["sum", "mean"] = "sum"
    mu: PositiveReal | Literal["auto"] = "auto"
    aggregation: Aggregation = "mean"
    regularizer: Literal["mse", "l2"] = "mse"
    regularizer_weight: NotNegativeReal | Literal["auto"] = "auto"


class TgpConfig(Config, frozen=True):
    """Likewise, the space in which the server trains, and FedTGP's settings of how."""

    tgp_space: Literal["compressed", "full"] = "compressed"
    margin_threshold: PositiveReal = 100.0
    server_epochs: Positive = 100
    server_lr: PositiveReal = 0.01
    server_batch_size: Positive = 32


@dataclass(frozen=True)
class Masks(Record):
    """The run constant `masks`: what each class keeps, as positions in a row of d features for each of K classes."""

    positions: np.ndarray = indices("kept", of="all")


@dataclass(frozen=True)
class Downlink(Record):
    """The compressed global prototypes of all classes known so far."""

    prototypes: np.ndarray = values("C", "S")
    classes: np.ndarray = class_ids("C")
    mu: float = scalar()


@dataclass(frozen=True)
class TgpDownlink(Record):
    """The compressed global prototypes of all classes, and the classes that some client has uploaded."""

    prototypes: np.ndarray = values("K", "S")
    classes: np.ndarray = class_ids("C")
    mu: float = scalar()


@dataclass(frozen=True)
class Uplink(Record):
    """The compressed local prototypes of the classes that the client holds, scaled if there is APS."""

    prototypes: np.ndarray = values("C", "S")
    classes: np.ndarray = class_ids("C")
    masks: str = digest_of("masks")


def kept_dim(config: Config, feature_dim: int) -> int:
    """Return s, the entries of a prototype that travel: all of them without CPS."""
    return config.prototype_dim if config.cps else feature_dim


def _check(spec: RunSpec, config: Config) -> None:
    """Refuse a run whose prototypes cannot be sparse, have no other to keep apart from, or hide what they weigh."""
    if kept_dim(config, spec.model.feature_dim) > spec.model.feature_dim:
        expected = f"expected at most [model] feature_dim = {spec.model.feature_dim}"
        raise ConfigError(f"[method] prototype_dim = {config.prototype_dim}: {expected}")
    if spec.num_classes < 2:
        raise ConfigError(f"{spec.method}: expected at least 2 classes, got {spec.classes}")
    if config.aps and config.aggregation != "mean":
        expected = "expected 'mean' or aps = false, as aps hides the samples behind a prototype in its scale"
        raise ConfigError(f"[method] aggregation = {config.aggregation!r}: {expected}")
    check_aggregation(spec, config)


def _downlink_dims(facts: Facts) -> dict[str, int]:
    return {"C": facts.num_classes_known, "S": kept_dim(facts.config, facts.feature_dim)}


def _tgp_downlink_dims(facts: Facts) -> dict[str, int]:
    return {"K": facts.num_classes, **_downlink_dims(facts)}


def _uplink_dims(facts: Facts) -> dict[str, int]:
    return {"C": facts.num_classes_held, "S": kept_dim(facts.config, facts.feature_dim)}


(_BASELINE,) = BASELINES

METHODS = (
    Method(
        name="tinyproto-fp",
        summary="fedproto with some features of each prototype, scaled by samples",
        paper="Lee and Choi, AAAI 2026",
        config=Config,
        exchanges=(Exchange("prototypes", Downlink, Uplink, _downlink_dims, _uplink_dims),),
        server="models.methods.tinyproto.server:TinyProtoServer",
        client="models.methods.tinyproto.client:TinyProtoClient",
        default_rule=_BASELINE.default_rule,
        global_rules=_BASELINE.global_rules,
        check=_check,
    ),
    Method(
        name="tinyproto-ft",
        summary="fedtgp with some features of each prototype, scaled by samples",
        paper="Lee and Choi, AAAI 2026",
        config=TgpConfig,
        exchanges=(Exchange("prototypes", TgpDownlink, Uplink, _tgp_downlink_dims, _uplink_dims),),
        server="models.methods.tinyproto.tgp_server:TinyProtoTgpServer",
        client="models.methods.tinyproto.client:TinyProtoTgpClient",
        default_rule=_BASELINE.default_rule,
        global_rules=_BASELINE.global_rules,
        check=_check,
    ),
)
