"""HGP: class-incremental learning by a prompt, with a head that the server rebalances on generated features.

"Federated Class-Incremental Learning with Hierarchical Generative Prototypes." Under review, 2026 (anonymous authors).
Equation numbers are this paper's.

Classes come in tasks (`[tasks]`). Clients keep a pre-trained vision transformer frozen and train a prompt, rows that
join the keys and values of its first blocks, and a head, by cross-entropy over the classes of the current task alone.
They send both with a Gaussian of their features for each class. The server half averages prompt and head, and retrains
the head on features drawn from the Gaussians of all classes so far, first a class, then a client, then a feature;
those of old tasks stay as they were sent last.

Deviations. As in the authors' code: keys and values of the prompt join after the projections and are 100 rows each;
covariances are diagonal; features are drawn anew in each epoch of the rebalancing, where Algorithm 1 draws once; the
unbiased variance of a class needs two samples, so a class with one has no Gaussian. Other than there: the prompt begins
from a normal distribution of 0.02 (from zeros all its rows stay equal); features of the statistics are normalised as at
evaluation; the loss of Eq. (7) is the plain cross-entropy (`logit_norm = 0.1`: over logits of norm 10); classes are
drawn by their samples (`class_weighting = "equal"`: evenly). With `rebalance_current` alone or `rebalance_old` alone
only the rows of those classes are trained, against each other. Images are not augmented. The optimizer is the run's own
and new in each round; the paper has Adam, 3e-3, 5 epochs of batches of 16 and 5 rounds a task, and its code clips
gradients (`clip_norm = 1`). Rows of the head that no task has trained stand at zero once there is a global model. A
class that no client has two samples of is neither drawn nor a class of the rebalancing.

The backbone never travels. Where `[model] weights` names a file, the server half makes its digest a run constant: a
client whose own differs stops, and its updates name the digest. Without a file the backbone follows from the run's
seed. A net that takes no prompt is trained whole (`tuning`), and all of it travels but for the head's rows of other
tasks.

Each aggregate tells `feature_bias`, the mean distance between two clients' means of a class, and the last loss of Eq.
(7). The bias of responses and the accuracies by task stand in the summary, as for any run with tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from models.generative import RebalancingConfig, check_gaussians
from models.methods.api import Exchange, Facts, Method
from models.spec import ConfigError, NotNegative, Positive, RunSpec
from wire.payload import Record, RecordError, class_ids, counts, digest_of, values


class Config(RebalancingConfig, frozen=True):
    """What is tuned, and how the head is rebalanced; both switches off leave federated averaging of prompt and head."""

    tuning: Literal["auto", "prompt", "full"] = "auto"
    """A prompt for a frozen net, or the whole net; `auto` takes a prompt where the net is a vision transformer."""
    prompt_blocks: NotNegative = 0
    """How many blocks have a prompt, from the first on; 0 for 5 of 12."""
    prompt_rows: Positive = 100
    """Rows of keys in each of them, and as many of values."""
    rebalance_current: bool = True
    """CR_cur: rebalance the head for classes of the current task."""
    rebalance_old: bool = True
    """CR_old: rebalance it for classes of the tasks before."""

    def num_blocks(self, depth: int) -> int:
        """Return how many blocks of so many have a prompt."""
        return self.prompt_blocks or math.ceil(depth * 5 / 12)


@dataclass(frozen=True)
class Downlink(Record):
    """The prompt (or whole net) and the head of the S classes seen so far; all is empty before the first average.

    A row of the head [D + 1] is a class's weights, then its bias.
    """

    parameters: np.ndarray = values("Q")
    buffers: np.ndarray = values("F")
    head: np.ndarray = values("S", "H")


@dataclass(frozen=True)
class Uplink(Record):
    """The trained prompt (or net), the current task's T rows of the head, and a Gaussian for each class with samples.

    Without train samples of the task all arrays but `num_train` are empty.
    """

    parameters: np.ndarray = values("Q")
    buffers: np.ndarray = values("F")
    head: np.ndarray = values("T", "H")
    num_train: np.ndarray = counts("one")
    means: np.ndarray = values("C", "D")
    variances: np.ndarray = values("C", "D")
    counts: np.ndarray = counts("C")
    classes: np.ndarray = class_ids("C")
    backbone: str = digest_of("backbone")

    def check(self) -> None:
        """Refuse what no samples can have given.

        Raises:
            RecordError: a negative variance, a Gaussian of fewer than two samples, or more of them than there are.
        """
        check_gaussians(self.variances, self.counts)
        total, num_train = (int(counts.sum(dtype=np.int64)) for counts in (self.counts, self.num_train))
        if total > num_train:
            raise RecordError(f"field 'counts': expected at most num_train = {num_train} samples in all, got {total}")


def _downlink_dims(facts: Facts) -> dict[str, int]:
    head = {"S": facts.num_seen, "H": facts.feature_dim + 1}
    return {**_trained_dims(facts), **head} if facts.rounds_completed else {**head, "Q": 0, "F": 0, "S": 0}


def _uplink_dims(facts: Facts) -> dict[str, int]:
    head = {"T": facts.num_task_classes, "H": facts.feature_dim + 1, "one": 1}
    gaussians = {"C": sum(count > 1 for count in facts.class_counts), "D": facts.feature_dim}
    if facts.num_train:
        return {**_trained_dims(facts), **head, **gaussians}
    return {**head, **gaussians, "Q": 0, "F": 0, "T": 0}


def _trained_dims(facts: Facts) -> dict[str, int]:
    """Return the sizes of all that is trained but for the head."""
    return {"Q": facts.num_parameters - facts.num_classes * (facts.feature_dim + 1), "F": facts.num_buffers}


def _check(spec: RunSpec, config: Config) -> None:
    if spec.model.init == "per_client" and config.tuning != "full":
        raise ConfigError("[model] init = 'per_client': expected 'common', as all clients share one frozen backbone")
    if config.tuning == "prompt" and any(name != "vit" for name in spec.model.names or [spec.model.name]):
        raise ConfigError(f"[method] tuning = 'prompt' needs [model] name = 'vit', got {spec.model.name!r}")


METHODS = (
    Method(
        name="hgp",
        summary="a prompt for a frozen net, and a head that is rebalanced on generated features",
        paper="anonymous, under review 2026",
        config=Config,
        exchanges=(Exchange("prompt", Downlink, Uplink, _downlink_dims, _uplink_dims),),
        server="models.methods.hgp.server:HgpServer",
        client="models.methods.hgp.client:HgpClient",
        default_rule="global_head",
        global_rules=("global_head",),
        check=_check,
        net="models.methods.hgp.nets:with_prompt",
        shares_model=True,
    ),
)
