"""What a method is: its records, its exchanges, and its two halves.

A round is a sequence of exchanges. Each sends one downlink to every client of the cohort and collects their uplinks.
The server half runs in the coordinator's aggregator, the client half in a device's trainer (or both in the
simulator); they meet only in the records that the method declares.

This module and every method's `__init__` stay free of torch: daemons import them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np

from models import seeding
from models.linear_rules import LinearRule, nearest_prototype
from models.methods.batching import batchable, varying_of
from models.methods.exchange import Exchange as Exchange
from models.methods.exchange import Facts as Facts
from models.methods.exchange import evaluation_of
from models.methods.faults import expect
from models.nets import is_frozen
from models.spec import ConfigError, RunSpec, Section
from wire.payload import Record

if TYPE_CHECKING:
    import torch

    from models.methods.numpy_client import NumpyClient
    from models.nets import Net
    from models.privacy import Release
    from models.prototypes import LocalPrototypes
    from models.steps import Progress
    from models.training import Batch


class RoundFailedError(Exception):
    """The round cannot be aggregated (all weights are zero, say); global state and clients go back to its start."""


def expect_finite(made: np.ndarray, round: int, what: str, advice: str) -> np.ndarray:
    """Return what a server half has made, in float32, if it is to be the new state: numbers, whatever came.

    Raises:
        RoundFailedError: it holds others; the text says what has diverged, and what to lower.
    """
    with np.errstate(over="ignore"):
        held = made.astype(np.float32, copy=False)
    if not np.isfinite(held).all():
        raise RoundFailedError(f"round {round}: {what} diverged; lower {advice}")
    return held


def any_run(spec: RunSpec, config: Any) -> None:
    """Refuse no run."""


def no_notes(spec: RunSpec, config: Any) -> Sequence[str]:
    """Tell of nothing."""
    return ()


@dataclass(frozen=True)
class Method:
    """A registered method: what daemons, reports, byte prediction and the README's table know of it."""

    name: str
    summary: str
    paper: str
    config: type[Section]
    exchanges: tuple[Exchange, ...]
    server: str
    """`module:class` of the server half, imported in the aggregator only."""
    client: str
    """`module:class` of the client half, imported in the trainer only."""
    client_numpy: str = field(default="", kw_only=True)
    """Likewise, of the half for a frozen net without torch; empty where the method needs the net's own gradient."""
    default_rule: str
    """The headline rule of a run whose config names none; empty where there is nothing to test."""
    local_rules: tuple[str, ...] = ()
    """Accuracy rules of a client's own state after local training, beside `LOCAL_RULES`."""
    global_rules: tuple[str, ...] = ()
    """Accuracy rules that need the new global state."""
    check: Callable[[RunSpec, Any], None] = any_run
    """Raises `ConfigError` for a run that the method's settings do not fit; asked before anything is started."""
    notes: Callable[[RunSpec, Any], Sequence[str]] = field(default=no_notes, kw_only=True)
    """Lines on what people may not expect of a run with these settings; told by `check-config` and at its start."""
    net: str = ""
    """`module:function` of `(net, spec, config)` that returns the client's net with the method's own layers, if any."""
    public_per_class: int = 0
    """Samples of each public class that the run holds out of all clients' data, unless `[data]` says otherwise."""
    needs_net: bool = True
    """Whether the client half works with a net; one that does not is given numpy arrays and never costs torch."""
    shares_model: bool = False
    """Whether all clients must have the same net, because whole nets are averaged."""
    frozen_extractor: bool = False
    """Whether features come from an extractor that no device's samples have shaped, so that noise can hide those.

    If `[privacy]` then adds noise, the client half tells of its train samples by `ClientContext.release` alone.
    """
    is_default: bool = False

    def exchange(self, index: int) -> Exchange:
        """Return a round's exchange; behind the last stands the evaluation, which sends what the first one sends."""
        return self._evaluation if self.is_evaluation(index) else self.exchanges[index]

    def is_evaluation(self, index: int) -> bool:
        """Say whether this is the index behind the last exchange, which stands for the evaluation after all rounds."""
        return index == len(self.exchanges)

    def downlink_name(self, index: int) -> str:
        """Return the name that both halves know a downlink by: for the evaluation it is the first exchange's."""
        return self.exchanges[0 if self.is_evaluation(index) else index].name

    @cached_property
    def _evaluation(self) -> Exchange:
        return evaluation_of(self.exchanges[0])

    def headline_rule(self, rule: str) -> str:
        """Return the rule that `[evaluation] rule` means: `auto` is the method's own choice."""
        return self.default_rule if rule == "auto" else rule

    @property
    def rules(self) -> tuple[str, ...]:
        """All accuracy rules, in the order in which reports number them."""
        return (*self.rules_after_training, *self.global_rules)

    @property
    def rules_after_training(self) -> tuple[str, ...]:
        """The accuracy rules that need nothing but a client's own state."""
        return (*LOCAL_RULES, *self.local_rules) if self.needs_net else self.local_rules

    def make_server(self, spec: RunSpec, config: Any) -> Server:
        """Import and build the server half, which computes with the run's number of threads.

        Raises:
            ConfigError: see `check`.
        """
        self.check(spec, config)
        half = _load(self.server)
        seeding.set_threads(spec.training.threads)
        made: Server = expect(Server, half(spec, config), f"a Server from {self.server!r}")
        return made

    def extend_net(self, net: Net, spec: RunSpec, config: Any) -> Net:
        """Return the net that clients work with: this one, with the layers that the method adds."""
        return cast("Net", _load(self.net)(net, spec, config)) if self.net else net

    def make_client(self, spec: RunSpec, config: Any) -> Client:
        """Import and build the client half."""
        made: Client = expect(Client, _load(self.client)(spec, config), f"a Client from {self.client!r}")
        return made

    def make_numpy_client(self, spec: RunSpec, config: Any) -> NumpyClient:
        """Import and build the client half for a frozen net.

        Raises:
            ConfigError: there is none.
        """
        self.check_net(spec.model.name)
        made: NumpyClient = _load(self.client_numpy)(spec, config)
        return made

    def check_net(self, name: str) -> None:
        """Refuse a net whose backbone is frozen where the method has to train it.

        Raises:
            ConfigError: as the summary says.
        """
        if is_frozen(name) and not self.client_numpy and self.needs_net:
            raise ConfigError(
                f"[model] name = {name!r}: {self.name} trains the whole net, and this one has a frozen backbone"
            )


LOCAL_RULES = ("head", "local_prototype")
"""Rules of every method that has a net: they need nothing but the client's own model."""


class Update(msgspec.Struct, frozen=True):
    """One client's uplink as the server half sees it, and the train samples of all tasks that the client announced."""

    client: str
    num_train: int
    record: Any


class Server(ABC):
    """The server half. All state that outlives an exchange is in `arrays()`."""

    num_train = 0
    """N: train samples, of all tasks, of all clients that were ready when the run's first round opened.

    Set before each question.
    """

    def __init__(self, spec: RunSpec, config: Any) -> None:
        self.spec = spec
        self.config = config

    def constants(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the run constants by name (masks, public data): made once per run, stored, sent once per client.

        A run with a frozen backbone has its digest, so a method with constants of its own adds them to these.
        """
        from models.nets.frozen_backbone import constants_of

        return constants_of(self.spec.model)

    @abstractmethod
    def configure(self, round: int, exchange: str) -> Record:
        """Return the downlink of this exchange, the same for all clients of the cohort."""

    @abstractmethod
    def aggregate(self, round: int, exchange: str, updates: Iterator[Update]) -> Mapping[str, float]:
        """Take in the uplinks of one exchange and return metrics to log.

        `updates` yields in client-id order, each decoded when it is asked for, and may hold fewer than the cohort. The
        result must not depend on who came first, and an absent class must stay absent.

        Raises:
            RoundFailedError: nothing can be made of these updates, such as a total weight of 0.
        """

    @abstractmethod
    def arrays(self) -> Mapping[str, np.ndarray]:
        """Return the whole global state by name."""

    @abstractmethod
    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up a state that `arrays` returned; an empty one is the state before round 1."""


@dataclass
class ClientContext:
    """What a client half is given to work with: its net, its data and its constants.

    A method with `needs_net = False` gets no net and no device, and its samples as numpy arrays. Samples, counts and
    classes are those of the run's current task; they change when the next task begins.
    """

    client: str
    net: Net
    device: torch.device
    train_x: torch.Tensor
    train_y: torch.Tensor
    class_counts: np.ndarray
    """Train samples by class, int64, as others are told: noised where the run says so."""
    constants: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    classes: range = range(0)
    """The classes that are trained now: all of them, or those of the run's current task."""
    num_seen: int | None = None
    """How many classes, from the first on, the tested model has been trained on; no other is predicted. None: all."""
    release: Release | None = None
    """What noises the statistics of this exchange's uplink, if `[privacy]` says so: a new one for each exchange."""


class Client(ABC):
    """The client half. All state that outlives an exchange is in `arrays()`, which starts from the net's own."""

    context: ClientContext

    def __init__(self, spec: RunSpec, config: Any) -> None:
        self.spec = spec
        self.config = config

    def start(self, context: ClientContext) -> None:
        """Take up net, data and constants. Called once, before everything else."""
        self.context = context

    @abstractmethod
    def receive(self, exchange: str, downlink: Any) -> None:
        """Install what the coordinator sent."""

    @batchable()
    def loss(self, batch: Batch) -> torch.Tensor:
        """Return the scalar training loss of one batch; cross-entropy of the head unless the method says otherwise."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(self.context.net.head(self.context.net.features(batch.x)), batch.y)

    def local_train(self, exchange: str, seed: int, on_progress: Progress | None) -> float:
        """Train on the local samples and return the mean loss: the one shared loop, unless a paper has its own phases.

        `seed` keys the draws of this attempt; `on_progress` may raise an `AbandonedError`.
        """
        from models.training import train

        self.before_training(exchange, seed)
        try:
            return train(self, self.spec.training, seed, on_progress)
        finally:
            self.after_training()

    def before_training(self, exchange: str, seed: int) -> None:  # noqa: B027 - most need nothing
        """Take note of what the loss or the uplink needs from before the shared loop."""

    def after_training(self) -> None:  # noqa: B027
        """Let go of what was held for the shared loop alone, however it ended."""

    def can_batch(self, exchange: str) -> bool:
        """Say whether the training of this exchange is the shared loop over a `batchable` loss."""
        return type(self).local_train is Client.local_train and varying_of(self.loss) is not None

    @abstractmethod
    def uplink(self, exchange: str) -> Record:
        """Return what goes up at the end of this exchange."""

    def dims(self) -> Mapping[str, int]:
        """Return the sizes of symbols that bound positions in the records, and that no array there need have."""
        return {}

    def has_rule(self, rule: str) -> bool:
        """Say whether there is such an accuracy rule with these settings; if not it has no accuracy, not one of 0."""
        return True

    def predictions(self, x: Any, rules: Sequence[str]) -> dict[str, np.ndarray]:
        """Return what each of these rules takes each sample for: class ids [B], -1 where it cannot say."""
        from models.prediction import predictions

        return {rule: said_B.cpu().numpy() for rule, said_B in predictions(self, x, rules).items()}

    def train_features(self) -> np.ndarray:
        """Return the features of the train samples with the net as it is, float32 [N, D]."""
        from models.nets.net import feature_batches

        net = self.context.net
        parts = [batch.cpu().numpy() for batch in feature_batches(net, self.context.train_x)]
        return np.concatenate([np.zeros((0, net.head.in_features), np.float32), *parts])

    def train_labels(self) -> np.ndarray:
        """Return the classes of the train samples, [N]."""
        return self.context.train_y.cpu().numpy()

    def local_prototypes(self) -> LocalPrototypes:
        """Return the mean feature of each class that the client holds, with the net as it is."""
        from models.prototypes import local_prototypes

        context = self.context
        return local_prototypes(context.net, context.train_x, context.train_y, self.spec.num_classes)

    def head_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return weights [C, D] and biases [C] of the head."""
        head = self.context.net.head
        return head.weight.detach().cpu().numpy(), head.bias.detach().cpu().numpy()

    def linear_rules(self) -> dict[str, LinearRule]:
        """Return the accuracy rules that an exported model is to have; a method adds its own."""
        weight_CD, bias_C = self.head_arrays()
        local = self.local_prototypes()
        head = LinearRule(weight_CD, bias_C, np.arange(len(bias_C)))
        return {"head": head, "local_prototype": nearest_prototype(local.prototypes_CD, local.classes)}

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Return predicted class ids [B] for one of the method's own rules, -1 where it cannot say."""
        raise ValueError(f"{type(self).__name__} has no accuracy rule {rule!r}")

    def predict_by_head(self, features_BD: torch.Tensor) -> torch.Tensor:
        """Return the class, among those seen so far, of the head's largest logit for each feature, [B]."""
        logits_BC: torch.Tensor = self.context.net.head(features_BD)
        return logits_BC[:, : self.context.num_seen].argmax(dim=1)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the state to checkpoint: the net's parameters and buffers, and what a subclass adds."""
        from models.nets import net_arrays

        return net_arrays(self.context.net)

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take up a state that `arrays` returned."""
        from models.nets import load_net_arrays

        load_net_arrays(self.context.net, arrays)


def _load(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
