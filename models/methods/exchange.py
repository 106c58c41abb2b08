"""One exchange of a round: what goes down and what comes up, and what the sizes of both are predicted from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from wire.payload import Nothing, Record

EVALUATION = "evaluation"
"""The name of the exchange after the last round, which is counted apart."""


class Facts(msgspec.Struct, frozen=True):
    """What is known about one client and the run when an exchange's bytes are predicted."""

    config: Any
    """The method's own settings."""
    num_classes: int
    num_public_classes: int
    """Classes that the run has public samples of, the first so many."""
    feature_dim: int
    """`[model] feature_dim`, the width that the net was built with, whatever the method adds to it."""
    num_train: int
    class_counts: Sequence[int]
    """Train samples on this client, by class; where the classes come in tasks, those of the round's task."""
    known_classes: Collection[int]
    """The classes that some accepted update has held so far."""
    num_parameters: int
    num_buffers: int
    round: int
    rounds_completed: int
    num_task_classes: int
    """Classes of this round's task; all of them where there are no tasks."""
    num_seen: int
    """Classes of the tasks that have had a completed round, 0 before any."""
    metrics: Mapping[str, float | None]
    """What the server half has told of the exchanges of this round that are closed."""

    @property
    def num_classes_held(self) -> int:
        """K_i: classes with at least one train sample on this client."""
        return sum(count > 0 for count in self.class_counts)

    @property
    def num_classes_known(self) -> int:
        """A, the number of `known_classes`."""
        return len(self.known_classes)


@dataclass(frozen=True)
class Exchange:
    """One exchange of a round. `downlink_dims` and `uplink_dims` give the size of every symbol of the two records."""

    name: str
    downlink: type[Record]
    uplink: type[Record]
    downlink_dims: Callable[[Facts], Mapping[str, int]]
    uplink_dims: Callable[[Facts], Mapping[str, int]]
    trains: bool = True

    def at(self, round: int) -> str:
        """Return round and exchange in words, to stand behind what is told of there."""
        return f"of round {round}, exchange {self.name!r}"


def no_dims(facts: Facts) -> Mapping[str, int]:
    """Return the sizes of a record without arrays."""
    return {}


def evaluation_of(first: Exchange) -> Exchange:
    """Return the evaluation after the last round: it sends what the first exchange sends, and takes nothing up."""
    return replace(first, name=EVALUATION, uplink=Nothing, uplink_dims=no_dims, trains=False)
