"""FedPA: clients learn from features that a generator on the server makes up, and pull their own towards prototypes.

L. Jiang, X. Wang, X. Yang, J. Shu, H. Lin, X. Yi. "FedPA: Generator-Based Heterogeneous Federated Prototype
Adversarial Learning." IEEE Transactions on Dependable and Secure Computing, 2024,
https://doi.org/10.1109/TDSC.2024.3419211. Equation numbers are this paper's; T = 0, 1 .. counts the aggregates so far.
Without its adversarial and its prototype term it is `fedgen`: Z. Zhu, J. Hong, J. Zhou. "Data-Free Knowledge
Distillation for Heterogeneous Federated Learning." ICML 2021, https://arxiv.org/abs/2105.10056.

A round: the clients train the global model with the generator and prototypes of the round before, in the first round
by cross-entropy alone; the server half averages prototypes and models, then trains the generator against the clients'
classifiers, whose place in the flat model each client names.

Deviations: Eq. (5) is summed over the clients, whose shares of a class add up to 1, not averaged (`literal_fidelity`
does). The distance of Eqs. (6) and (10) is the squared error averaged over the dimensions, as in the authors' code,
whose weights fit no other: with the norm as printed (`distance = "l2"`) the prototype term drowns the rest, and on
MNIST the accuracy falls below federated averaging's. Eq. (7) takes the mean absolute difference of features and the
mean square one of noises, as that code does too (`div = "literal"`: the norms). Local prototypes, Eq. (2), are
computed in a pass of their own after training. A class that no client of a round holds keeps its prototype, is not
generated while the generator trains, and has no term on clients before its first prototype. The label counter behind
the distribution of Eqs. (8) and (11) adds up what the clients of all rounds counted; it travels as counts. As many
features are generated as the batch of samples has. Weights decay to a floor, or stay where they are below it. The
clients' common initial model does not travel, batch norm's running statistics are averaged with the parameters, and the
clients' optimizer is the run's own.

Each aggregate tells the terms of Eq. (8), and of generated features their mean norm and their distances within and
between classes. L_ad has no upper bound: as gamma_fid decays the norm grows, on MNIST from 4 to 95 in 200 rounds,
without harm to accuracy. `clip_norm` limits the generator's gradient, which under Adam does not hold features back.

`fedgen` has the weights of its authors' code. It trains its generator on the sum of the clients' cross-entropies, as
that code does, where its paper has the cross-entropy of averaged logits; the further term of the code, which ties
predictions to those for generated features, is in neither paper and left out. No prototypes travel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import numpy as np

from models.methods.api import Exchange, Facts, Method
from models.spec import NotNegative, NotNegativeReal, PartOrAll, Positive, PositiveReal, Section
from wire.payload import Record, RecordError, class_ids, counts, scalar, values


class Config(Section, frozen=True):
    """The weight of each term, where 0 leaves it out (but for fidelity, which gives the features their classes).

    A term without use takes its cause along: with a `generated_weight` of 0 no generator is trained or sent, and no
    prototypes travel, and no accuracy by them is told, unless a term needs them.
    """

    generated_weight: NotNegativeReal = 25.0
    """Lambda_ge of Eq. (12), at T = 0."""
    generated_floor: NotNegativeReal = 1e-4
    prototype_weight: NotNegativeReal = 5.0
    """Lambda_po of Eq. (12), at T = 0."""
    prototype_floor: NotNegativeReal = 0.15
    fidelity_weight: PositiveReal = 25.0
    """Gamma_fid of Eq. (8), at T = 0."""
    fidelity_floor: NotNegativeReal = 1e-4
    adversarial_weight: NotNegativeReal = 0.15
    """Gamma_ad of Eq. (8)."""
    diversity_weight: NotNegativeReal = 1.0
    """Gamma_div of Eq. (8)."""
    decay: PartOrAll = 0.98
    """The first three weights shrink by this with each T, down to their floors."""
    distance: Literal["l2", "mse"] = "mse"
    """Of Eqs. (6) and (10): the norm, or its square averaged over the dimensions."""
    div: Literal["per_dim", "literal"] = "per_dim"
    diversity_pairs: Literal["same", "different", "all"] = "same"
    """The pairs of Eq. (7): those of one class, of two (as in the authors' code), or all."""
    literal_fidelity: bool = False
    """Divide Eq. (5) by the number of clients, as printed."""
    labels: Literal["global", "uniform"] = "global"
    """Generated classes follow the label counter, or all known ones are as likely."""
    noise: Literal["normal", "uniform"] = "normal"
    """Standard normal, or uniform in [0, 1) as in the authors' code."""
    noise_dim: Positive = 32
    hidden_dim: Positive = 256
    generator_steps: NotNegative = 50
    """Steps of Adam per round."""
    generator_batch_size: Annotated[int, msgspec.Meta(ge=2, le=2**31 - 1)] = 32
    generator_lr: PositiveReal = 3e-4
    generator_lr_decay: PartOrAll = 0.98
    """The generator's learning rate shrinks by this with each T."""
    generator_weight_decay: NotNegativeReal = 1e-2
    clip_norm: NotNegativeReal = 0.0
    """The largest norm of the generator's gradient; 0 for no limit."""

    @property
    def uses_generator(self) -> bool:
        """Whether clients need a generator."""
        return self.generated_weight > 0

    @property
    def uses_prototypes(self) -> bool:
        """Whether some term needs prototypes."""
        return self.prototype_weight > 0 or (self.uses_generator and self.adversarial_weight > 0)


class FedGenConfig(Config, frozen=True):
    """The same, with the terms and weights of FedGen's authors."""

    generated_weight: NotNegativeReal = 10.0
    prototype_weight: NotNegativeReal = 0.0
    fidelity_weight: PositiveReal = 1.0
    fidelity_floor: NotNegativeReal = 1.0
    adversarial_weight: NotNegativeReal = 0.0
    diversity_pairs: Literal["same", "different", "all"] = "all"
    noise: Literal["normal", "uniform"] = "uniform"


def scheduled(weight: float, floor: float, decay: float, age: int) -> float:
    """Return a weight after so many aggregates: it decays to its floor, one below its floor does not, 0 stays 0."""
    return max(weight * decay**age, min(weight, floor))


@dataclass(frozen=True)
class Downlink(Record):
    """The global model, prototypes of all known classes, label counter and generator; empty before the first aggregate.

    `age` is the number of aggregates that made it.
    """

    parameters: np.ndarray = values("P")
    buffers: np.ndarray = values("F")
    prototypes: np.ndarray = values("C", "D")
    classes: np.ndarray = class_ids("C")
    label_counts: np.ndarray = counts("L")
    generator_parameters: np.ndarray = values("G")
    generator_buffers: np.ndarray = values("H")
    age: int = scalar()


@dataclass(frozen=True)
class Uplink(Record):
    """The trained model, local prototypes, and train samples of each class; a client without any sends zero counts.

    `classifier_at` is where the head's weight [K, D] begins in `parameters`; its bias [K] follows.
    """

    parameters: np.ndarray = values("P")
    buffers: np.ndarray = values("F")
    prototypes: np.ndarray = values("C", "D")
    classes: np.ndarray = class_ids("C")
    counts: np.ndarray = counts("K")
    classifier_at: int = scalar()

    def check(self) -> None:
        """Refuse what contradicts itself.

        Raises:
            RecordError: prototypes of other classes than those counted, or a classifier that is not in the model.
        """
        counted, came = np.flatnonzero(self.counts).tolist(), self.classes.tolist()
        if came and came != counted:
            raise RecordError(f"expected prototypes of the classes {counted} that it counts, got {came}")
        shape, num_parameters = (len(self.counts), self.prototypes.shape[1]), len(self.parameters)
        size = shape[0] * (shape[1] + 1)
        if counted and not 0 <= self.classifier_at <= num_parameters - size:
            raise RecordError(
                f"expected a classifier of {size} entries ({shape[0]} x {shape[1]} and {shape[0]}) among its "
                f"{num_parameters} parameters, got it from {self.classifier_at} on"
            )


def _downlink_dims(facts: Facts) -> dict[str, int]:
    if not facts.rounds_completed:
        return {"P": 0, "F": 0, "C": 0, "D": facts.feature_dim, "L": 0, "G": 0, "H": 0}
    prototypes = {"C": facts.num_classes_known if facts.config.uses_prototypes else 0, "D": facts.feature_dim}
    return {"P": facts.num_parameters, "F": facts.num_buffers, **prototypes, **_generator_dims(facts)}


def _generator_dims(facts: Facts) -> dict[str, int]:
    config, width = facts.config, facts.config.hidden_dim
    if not config.uses_generator:
        return {"L": 0, "G": 0, "H": 0}
    inputs = config.noise_dim + facts.num_classes
    parameters = (inputs + 1) * width + 2 * width + (width + 1) * facts.feature_dim
    return {"L": facts.num_classes, "G": parameters, "H": 2 * width}


def _uplink_dims(facts: Facts) -> dict[str, int]:
    model = {"P": facts.num_parameters, "F": facts.num_buffers} if facts.num_train else {"P": 0, "F": 0}
    num_prototypes = facts.num_classes_held if facts.config.uses_prototypes else 0
    return {**model, "C": num_prototypes, "D": facts.feature_dim, "K": facts.num_classes}


_EXCHANGES = (Exchange("model", Downlink, Uplink, _downlink_dims, _uplink_dims),)
_SERVER = "models.methods.fedpa.server:FedPaServer"
_CLIENT = "models.methods.fedpa.client:FedPaClient"

METHODS = (
    Method(
        name="fedpa",
        summary="fedavg with prototypes, and a generator of features trained on the server",
        paper="Jiang et al., TDSC 2024",
        config=Config,
        exchanges=_EXCHANGES,
        server=_SERVER,
        client=_CLIENT,
        default_rule="global_head",
        global_rules=("global_head", "global_prototype"),
        shares_model=True,
    ),
    Method(
        name="fedgen",
        summary="fedavg with a generator of features trained on the server",
        paper="Zhu et al., ICML 2021",
        config=FedGenConfig,
        exchanges=_EXCHANGES,
        server=_SERVER,
        client=_CLIENT,
        default_rule="global_head",
        global_rules=("global_head",),
        shares_model=True,
    ),
)
