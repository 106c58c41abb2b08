"""What a method is: its records, its exchanges, and its two halves.

A round is a sequence of exchanges. Each sends one downlink to every client of the cohort and collects their uplinks.
The server half runs in the coordinator's aggregator, the client half in a device's trainer (or both in the
simulator); they meet only in the records that the method declares.

This module and every method's `__init__` stay free of torch: daemons import them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from models.spec import RunSpec, Section
from wire.payload import Record

if TYPE_CHECKING:
    import torch

    from models.nets import Net
    from models.training import Batch, Progress


class RoundFailedError(Exception):
    """The round cannot be aggregated (all weights are zero, say); global state and clients go back to its start."""


@dataclass(frozen=True)
class Facts:
    """What is known about one client and the run when bytes are predicted: the symbols of `methods.md`'s wire table."""

    num_classes: int
    feature_dim: int
    num_train: int
    num_classes_held: int
    """K_i: classes with at least one train sample on this client."""
    num_classes_known: int
    """A: classes that some accepted update has held so far."""
    num_parameters: int
    num_buffers: int
    rounds_completed: int


@dataclass(frozen=True)
class Exchange:
    """One exchange of a round. `downlink_dims` and `uplink_dims` give the size of every symbol of the two records."""

    name: str
    downlink: type[Record]
    uplink: type[Record]
    downlink_dims: Callable[[Facts], Mapping[str, int]]
    uplink_dims: Callable[[Facts], Mapping[str, int]]
    trains: bool = True


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
    default_rule: str
    """The headline rule of a run whose config names none; empty where there is nothing to test."""
    global_rules: tuple[str, ...] = ()
    """Accuracy rules that need the new global state, beside `head` and `local_prototype` which every method has."""
    needs_net: bool = True
    """Whether the client half works with a net; one that does not is given numpy arrays and never costs torch."""
    shares_model: bool = False
    """Whether all clients must have the same net, because whole nets are averaged."""
    is_default: bool = False

    @property
    def rules(self) -> tuple[str, ...]:
        """All accuracy rules, in the order in which reports number them."""
        return (*LOCAL_RULES, *self.global_rules) if self.needs_net else self.global_rules

    def make_server(self, spec: RunSpec, config: Any) -> Server:
        """Import and build the server half."""
        made = _load(self.server)(spec, config)
        assert isinstance(made, Server)
        return made

    def make_client(self, spec: RunSpec, config: Any) -> Client:
        """Import and build the client half."""
        made = _load(self.client)(spec, config)
        assert isinstance(made, Client)
        return made


LOCAL_RULES = ("head", "local_prototype")
"""Rules that need nothing but the client's own model, evaluated after local training."""


@dataclass(frozen=True)
class Update:
    """One client's uplink as the server half sees it, and the train samples that the client announced at join."""

    client: str
    num_train: int
    record: Any


class Server(ABC):
    """The server half. All state that outlives an exchange is in `arrays()`."""

    def __init__(self, spec: RunSpec, config: Any) -> None:
        self.spec = spec
        self.config = config

    def constants(self) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return the run constants by name (masks, public data): made once per run, stored, sent once per client."""
        return {}

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

    A method with `needs_net = False` gets no net and no device, and its samples as numpy arrays.
    """

    client: str
    net: Net
    device: torch.device
    train_x: torch.Tensor
    train_y: torch.Tensor
    class_counts: np.ndarray
    constants: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)


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

    def loss(self, batch: Batch) -> torch.Tensor:
        """Return the scalar training loss of one batch; cross-entropy of the head unless the method says otherwise."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(self.context.net.head(self.context.net.features(batch.x)), batch.y)

    def local_train(self, exchange: str, seed: int, on_progress: Progress | None) -> float:
        """Train on the local samples and return the mean loss: the one shared loop, unless a paper has its own phases.

        `seed` keys the draws of this attempt; `on_progress` may raise to abandon it.
        """
        from models.training import train

        return train(self, self.spec.training, seed, on_progress)

    @abstractmethod
    def uplink(self, exchange: str) -> Record:
        """Return what goes up at the end of this exchange."""

    def predict(self, rule: str, features_BD: torch.Tensor) -> torch.Tensor:
        """Return predicted class ids [B] for one of the method's `global_rules`, -1 where it cannot say."""
        raise ValueError(f"{type(self).__name__} has no accuracy rule {rule!r}")

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
