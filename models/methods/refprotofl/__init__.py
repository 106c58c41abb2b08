"""RefProtoFL: clients share a small adapter, of which they send the most changed entries, and align their features.

H. Wu, H. Li, G. Fan, H. Zhu, S. Chen, Z. Feng. "RefProtoFL: Communication-Efficient Federated Learning via
External-Referenced Prototype Alignment." 2026, https://arxiv.org/abs/2601.14746 (equation and algorithm numbers are
this paper's).

The adapter theta^a = (theta^f, theta^c) follows a private backbone, which every client trains and nobody sends: theta^f
is a linear layer with ReLU from the backbone's features to `adapter_dim`, theta^c the linear head. A round has two
exchanges. In the first the adapter goes down and prototypes come up, computed before training, of public samples and,
for the classes without any, of a client's own (ERPA, Algorithms 3 and 4). In the second the anchors of all classes go
down, clients train with them (Algorithm 5), and the entries of the adapter that changed most come up (APUD, Algorithms
1 and 2).

**Deviations**, where the paper is open or contradicts itself:

- What travels is the change of an entry (`payload = "delta"`), to which the server adds its own value; the paper's
  values are the same up to rounding and lose more of it in 16 bits. Sent are exactly so many entries, with the set of
  their positions, as a value of 0 does not tell whether it was sent.
- The means of Eq. (14) and (15) are over the clients whose prototypes have come, not over all that were asked.
- A class that nobody has in this round keeps its last anchor, where Eq. (16) is undefined; without any it has no term.
- The sums of Eq. (17) and (18) are means over a batch, both with the same divisor.
- The backbone is trained, as in Algorithm 5, although the paper's section on communication cost calls it frozen.
- The first adapter is drawn from the run's seed by both sides and does not travel, nor does the clients' backbone.
- The means of Eq. (14) and (15) may be trimmed means or medians over the clients (`aggregation`, see `models.robust`);
  the adapter, whose entries come from other clients each, is averaged as ever.
- A client that has missed a round's first exchange trains in the second from the adapter that it has, which at first is
  the run's first one, and sends what changed in that, or with `payload = "value"` its own values. So the two payloads
  are the same only among clients that had the first exchange.
- A client without train samples sends neither prototypes nor adapter. One that has some sends at least one entry of the
  adapter: a budget of nothing, with which nobody would learn from another, is refused.
- The run's own settings hold for the rest: each client is tested on its own samples (`[evaluation] test = "global"`: on
  all), and `[model] norm = "group"` takes the place of batch normalisation, whose statistics would not travel, where
  the backbone has that choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
import numpy as np

from models import seeding
from models.methods.api import Exchange, Facts, Method
from models.robust import Aggregation, check_aggregation
from models.spec import NotNegativeReal, Positive, RunSpec, Section
from wire.payload import Record, RecordError, class_ids, counts, indices, values


class Config(Section, frozen=True):
    """The two parts of the method, each of which can be left out, and their settings.

    `erpa` aligns features with anchors, by the weight lambda, `anchor_weight`, of Eq. (19). `apud` sends `budget`
    entries of the adapter, a number of them (all, where it has no more) or, with a point, a share, as a `delta` or as
    the `value` itself; without it all are sent. `adapter_dim` is the width m of the adapter's features, and
    `aggregation` how anchors are made.
    """

    erpa: bool = True
    apud: bool = True
    budget: Positive | Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.1
    payload: Literal["delta", "value"] = "delta"
    anchor_weight: NotNegativeReal = 0.01
    adapter_dim: Positive = 128
    aggregation: Aggregation = "mean"

    @property
    def aligns(self) -> bool:
        """Whether there are prototypes at all; anchors of weight 0 are not worth their bytes."""
        return self.erpa and self.anchor_weight > 0

    def num_sent(self, adapter_size: int) -> int:
        """Return how many entries of the adapter a client sends, at least 1."""
        if not self.apud:
            return adapter_size
        if isinstance(self.budget, float):
            return max(1, round(self.budget * adapter_size))
        return min(self.budget, adapter_size)


@dataclass(frozen=True)
class AdapterDown(Record):
    """The global adapter; empty before the first average, when `initial_adapter` stands."""

    adapter: np.ndarray = values("A")


@dataclass(frozen=True)
class PrototypesUp(Record):
    """The public prototypes of all public classes, and of other classes the local ones, with their train samples."""

    public: np.ndarray = values("Q", "M")
    local: np.ndarray = values("C", "M")
    counts: np.ndarray = counts("C")
    classes: np.ndarray = class_ids("C")

    def check(self) -> None:
        """Refuse local prototypes of public classes: by its samples a client would outweigh all others' public ones.

        Raises:
            RecordError: as the summary says.
        """
        num_public = len(self.public)
        if (self.classes < num_public).any():
            raise RecordError(f"field 'classes': expected none of the {num_public} public ones, got {self.classes[0]}")


@dataclass(frozen=True)
class AnchorsDown(Record):
    """The anchors of all classes that have one."""

    anchors: np.ndarray = values("C", "M")
    classes: np.ndarray = class_ids("C")


@dataclass(frozen=True)
class AdapterUp(Record):
    """The entries of the adapter that changed most, at their positions; both are empty where `num_train` is 0."""

    positions: np.ndarray = indices("B", of="A")
    entries: np.ndarray = values("B")
    num_train: np.ndarray = counts("one")


def adapter_size(config: Config, feature_dim: int, num_classes: int) -> int:
    """Return d_a, the entries of the adapter behind a backbone with features of this width."""
    return config.adapter_dim * (feature_dim + 1) + num_classes * (config.adapter_dim + 1)


def initial_adapter(spec: RunSpec, config: Config) -> np.ndarray:
    """Return theta^{a,0}, float32 [A]: both layers drawn evenly within 1 / sqrt(inputs), as torch draws them."""
    random = seeding.generator(spec.seed, "initial adapter")
    layers = ((spec.model.feature_dim, config.adapter_dim), (config.adapter_dim, spec.num_classes))
    drawn = [random.uniform(-1, 1, outputs * (inputs + 1)) / np.sqrt(inputs) for inputs, outputs in layers]
    return np.concatenate(drawn).astype(np.float32)


def _adapter_size(facts: Facts) -> int:
    return adapter_size(facts.config, facts.feature_dim, facts.num_classes)


def _adapter_down_dims(facts: Facts) -> dict[str, int]:
    return {"A": _adapter_size(facts) if facts.rounds_completed else 0}


def _prototypes_up_dims(facts: Facts) -> dict[str, int]:
    sends = facts.config.aligns and facts.num_train > 0
    num_public = facts.num_public_classes
    num_local = sum(count > 0 for count in facts.class_counts[num_public:])
    return {"Q": num_public * sends, "C": num_local * sends, "M": facts.config.adapter_dim}


def _anchors_down_dims(facts: Facts) -> dict[str, int]:
    num_public = facts.num_public_classes
    num_anchors = num_public + sum(label >= num_public for label in facts.known_classes)
    return {"C": num_anchors * facts.config.aligns, "M": facts.config.adapter_dim}


def _adapter_up_dims(facts: Facts) -> dict[str, int]:
    size = _adapter_size(facts)
    return {"A": size, "B": facts.config.num_sent(size) if facts.num_train else 0, "one": 1}


METHODS = (
    Method(
        name="refprotofl",
        summary="the most changed entries of a shared adapter, features aligned by public samples",
        paper="Wu et al., 2026",
        config=Config,
        exchanges=(
            Exchange("prototypes", AdapterDown, PrototypesUp, _adapter_down_dims, _prototypes_up_dims, trains=False),
            Exchange("adapter", AnchorsDown, AdapterUp, _anchors_down_dims, _adapter_up_dims),
        ),
        server="models.methods.refprotofl.server:RefProtoFLServer",
        client="models.methods.refprotofl.client:RefProtoFLClient",
        default_rule="global_adapter",
        global_rules=("global_adapter",),
        check=check_aggregation,
        net="models.methods.refprotofl.nets:with_adapter",
        public_per_class=20,
    ),
)
