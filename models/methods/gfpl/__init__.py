"""GFPL: clients exchange Gaussian mixtures of their features, and train their classifiers on samples of them.

S. Lu, Y. He, J. Li, Q. Wang, Y. Gong. "GFPL: Generative Federated Prototype Learning for Resource-Constrained and
Data-Imbalanced Vision Task." https://arxiv.org/abs/2602.21873 (equation and algorithm numbers are this paper's).

A client's net has two classifiers on its features: the head g, and a projection l whose normalised output is compared
with the fixed vectors of an equiangular tight frame, one for each class (Eq. 9 to 13). In interaction rounds t, those
with t >= t_1 and t mod S_T = 0, each client sends one mixture per class that it holds, the server fuses near components
(Algorithm 1), and clients retrain both classifiers on samples of what comes back, the extractor left alone (Eq. 14).
In all other rounds both exchanges are empty. `dual_classifier = false` and `pseudo_features = false` are the paper's
ablations "w/o DCS" and "w/o PFG"; without pseudo-features no round interacts.

Deviations:
- Local training starts in round 1, not in round t_1; mixtures are fitted after it, once.
- Mixtures are diagonal, with one component for every two samples of the class, at most n; no variance is below a floor.
- Whatever is near to a seed joins it in the first pass of Algorithm 1, so none can follow: it is leader clustering.
  Seeds go by descending weight n_ij pi_k, then by client and component. `linkage = "complete"` adds components one at a
  time, each near to all before it.
- A class of which no mixture came in an interaction round keeps its last one.
- Retraining is one pass over r samples of each class of which there is a mixture. Where features are not negative,
  samples that are become 0 (`clamp_samples`). Both losses of Eq. (13) and (14) are means over the batch.
- The paper does not say which classifier it tests: the head, the fixed one (`etf`) and the sum of their scores each
  predict, among all classes and among the client's own (`own_`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from models.methods.api import Exchange, Facts, Method
from models.methods.exchange import no_dims
from models.methods.gfpl.etf import check_width
from models.spec import NotNegativeReal, Positive, PositiveReal, RunSpec, Section
from wire.payload import Nothing, Record, RecordError, class_ids, counts, scalar, values

ROUNDING = 1 / 255
"""How far a component's weight may be off on the wire: a step of the coarsest codec."""


class Config(Section, frozen=True):
    """GFPL's settings.

    `num_components` n, `first_interaction` t_1, `interaction_interval` S_T, `threshold` S_C (of the distance divided by
    its dimensions if `threshold_per_dim`), `regularizer_weight` lambda, `samples_per_class` r. `projection_dim` is the
    width of the frame, at least the number of classes. A class of one sample has the `variance_floor` as its variance,
    or that inside the client's other classes (`single_sample = "pooled"`).
    """

    num_components: Positive = 4
    first_interaction: Positive = 10
    interaction_interval: Positive = 10
    threshold: NotNegativeReal = 1.0
    threshold_per_dim: bool = False
    linkage: Literal["leader", "complete"] = "leader"
    dual_classifier: bool = True
    projection_dim: Positive = 50
    regularizer_weight: NotNegativeReal = 2.0
    pseudo_features: bool = True
    samples_per_class: Positive = 16
    clamp_samples: Literal["auto"] | bool = "auto"
    single_sample: Literal["floor", "pooled"] = "floor"
    variance_floor: PositiveReal = 1e-6


class Mixture(NamedTuple):
    """The Gaussian components of one class: weights [G] of sum 1, means and standard deviations [G, D], float32."""

    weights: np.ndarray
    means: np.ndarray
    deviations: np.ndarray


@dataclass(frozen=True)
class Schedule(Record):
    """Whether mixtures are exchanged in this round."""

    interacts: bool = scalar()


@dataclass(frozen=True)
class Mixtures(Record):
    """One mixture for each class in `classes`, the components of all classes end to end."""

    weights: np.ndarray = values("G")
    means: np.ndarray = values("G", "D")
    deviations: np.ndarray = values("G", "D")
    num_components: np.ndarray = counts("C", of_samples=False)
    classes: np.ndarray = class_ids("C")

    def by_class(self) -> dict[int, Mixture]:
        """Return the mixtures by class id."""
        ends = np.cumsum(self.num_components, dtype=np.int64)
        slices = map(slice, (ends - self.num_components).tolist(), ends.tolist())
        parts = (Mixture(self.weights[part], self.means[part], self.deviations[part]) for part in slices)
        return dict(zip(self.classes.tolist(), parts, strict=True))

    def check(self) -> None:
        """Refuse what is no mixture.

        Raises:
            RecordError: components that do not add up, a negative weight, weights of another sum than 1 (but for what
                the codec may have rounded away), or a standard deviation that is not positive.
        """
        if self.num_components.sum() != len(self.weights) or not self.num_components.all():
            came = self.num_components[:20].tolist()
            raise RecordError(f"field 'num_components': expected at least 1 each and {len(self.weights)}, got {came}")
        if not (self.deviations > 0).all():
            raise RecordError(f"field 'deviations': expected numbers above 0, got {self.deviations.min()}")
        if (self.weights < 0).any():
            raise RecordError(f"field 'weights': expected no negative number, got {self.weights.min()}")
        for label, mixture in self.by_class().items():
            total = float(mixture.weights.sum(dtype=np.float64))
            if not total or abs(total - 1) > ROUNDING * len(mixture.weights):
                raise RecordError(f"field 'weights': expected a sum of 1 for class {label}, got {total:g}")


@dataclass(frozen=True)
class Uplink(Mixtures):
    """The mixtures of the classes that the client holds, and its train samples of each."""

    counts: np.ndarray = counts("C")


def flattened(mixtures: Mapping[int, Mixture], feature_dim: int) -> dict[str, np.ndarray]:
    """Return the arrays of a `Mixtures` record, classes in ascending order."""
    ordered = [mixtures[label] for label in sorted(mixtures)]
    nothing = Mixture(np.zeros(0), np.zeros((0, feature_dim)), np.zeros((0, feature_dim)))
    weights, means, deviations = (np.concatenate(parts) for parts in zip(nothing, *ordered, strict=True))
    return {
        "weights": weights.astype(np.float32),
        "means": means.astype(np.float32),
        "deviations": deviations.astype(np.float32),
        "num_components": np.array([len(mixture.weights) for mixture in ordered], np.uint32),
        "classes": np.array(sorted(mixtures), np.uint16),
    }


def interacts(config: Any, round: int) -> bool:
    """Tell whether mixtures are exchanged in this round."""
    is_due = round >= config.first_interaction and round % config.interaction_interval == 0
    return bool(config.pseudo_features and is_due)


def most_components(num_samples: int, config: Any) -> int:
    """Return how many components the mixture of so many samples has."""
    return max(1, min(config.num_components, num_samples // 2)) if num_samples else 0


def _check(spec: RunSpec, config: Config) -> None:
    """Refuse a run that has no frame: it needs more dimensions, or more classes."""
    if config.dual_classifier:
        check_width(config.projection_dim, spec.num_classes)


def _notes(spec: RunSpec, config: Config) -> list[str]:
    """Tell of a run that is too short for an exchange, so that clients only train by themselves."""
    if not config.pseudo_features or any(interacts(config, round) for round in range(1, spec.num_rounds + 1)):
        return []
    schedule = f"first_interaction = {config.first_interaction}, interaction_interval = {config.interaction_interval}"
    return [f"[method] {schedule}: no round of this run exchanges mixtures, as [run] num_rounds = {spec.num_rounds}"]


def _uplink_dims(facts: Facts) -> dict[str, int]:
    if not interacts(facts.config, facts.round):
        return {"C": 0, "G": 0, "D": facts.feature_dim}
    num_components = sum(most_components(count, facts.config) for count in facts.class_counts)
    return {"C": facts.num_classes_held, "G": num_components, "D": facts.feature_dim}


def _fused_dims(facts: Facts) -> dict[str, int]:
    if not interacts(facts.config, facts.round):
        return {"C": 0, "G": 0, "D": facts.feature_dim}
    told = {name: int(facts.metrics[name] or 0) for name in ("num_classes", "num_components")}
    return {"C": told["num_classes"], "G": told["num_components"], "D": facts.feature_dim}


METHODS = (
    Method(
        name="gfpl",
        summary="Gaussian mixtures per class, fused, sampled to train classifiers",
        paper="Lu et al., arXiv 2026",
        config=Config,
        exchanges=(
            Exchange("mixtures", Schedule, Uplink, no_dims, _uplink_dims),
            Exchange("fusion", Mixtures, Nothing, _fused_dims, no_dims),
        ),
        server="models.methods.gfpl.server:GfplServer",
        client="models.methods.gfpl.client:GfplClient",
        check=_check,
        notes=_notes,
        net="models.methods.gfpl.nets:with_projection",
        default_rule="head",
        local_rules=("etf", "head_etf", "own_head", "own_etf", "own_head_etf"),
    ),
)
