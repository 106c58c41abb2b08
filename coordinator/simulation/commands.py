"""What a simulation and its jobs, the processes that work for its clients, say to each other through their pipes.

`Begin` and as many constants come first. Then one thing at a time: `Announce`, answered by an `Announced` for each
client; `Open`, which is not answered; `Perform`, answered by a `Performed` for each client, with its update's frames
behind it. `Failed` in place of any answer ends the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from coordinator.aggregator.commands import ConstantMade
from coordinator.aggregator.half import Constant
from coordinator.simulation import clients
from models.spec import read_spec
from wire.encoding import Frames, decode, encode
from wire.limits import PIPE_BYTES
from wire.messages import Message, Ready
from wire.tensors import Buffer
from wire.timing import Timing


class Begin(Message, frozen=True, array_like=True):
    """Work for clients of this run; a user's modules are in `modules`, the data set in `samples` unless that is ''."""

    tag: ClassVar[int] = 112
    spec: dict[str, Any]
    run: int
    max_message_bytes: int
    folder: str
    cache_bytes: int
    counts_flops: bool
    batched: bool
    modules: str
    samples: str
    num_constants: int = 0

    @classmethod
    def of(cls, setup: clients.Setup, modules: Path, samples: Path | None) -> Begin:
        """Return the command that hands a setup to another process, which keeps states where this one does."""
        return cls(
            spec=msgspec.to_builtins(setup.spec),
            run=setup.run,
            max_message_bytes=setup.max_message_bytes,
            folder=str(setup.folder),
            cache_bytes=setup.cache_bytes,
            counts_flops=setup.counts_flops,
            batched=setup.batched,
            modules=str(modules.resolve()),
            samples=str(samples.resolve()) if samples else "",
        )

    @property
    def setup(self) -> clients.Setup:
        """The setup that was handed over."""
        return clients.Setup(
            spec=read_spec(self.spec),
            run=self.run,
            max_message_bytes=self.max_message_bytes,
            folder=Path(self.folder),
            keeps_states=True,
            cache_bytes=self.cache_bytes,
            counts_flops=self.counts_flops,
            batched=self.batched,
        )


class Announce(Message, frozen=True, array_like=True):
    """Say what these clients have."""

    tag: ClassVar[int] = 113
    clients: list[str]


class Announced(Message, frozen=True, array_like=True):
    """What one client has."""

    tag: ClassVar[int] = 114
    client: str
    ready: Ready
    notes: list[str]
    flops: int


class Open(Message, frozen=True, array_like=True):
    """The exchange that is performed from now on, with its downlink."""

    tag: ClassVar[int] = 115
    carries_payload: ClassVar[bool] = True
    round: int
    exchange: int
    base: int


class Perform(Message, frozen=True, array_like=True):
    """Do the open exchange for these clients; `kept` is the last round of each whose outcome stands."""

    tag: ClassVar[int] = 116
    kept: dict[str, int]


class Performed(Message, frozen=True, array_like=True):
    """What one client has done, in front of its update's frames; `timing` is that of its work, as in `wire.timing`."""

    tag: ClassVar[int] = 117
    client: str
    timing: tuple[int, int, int, int]
    notes: list[str]


class Failed(Message, frozen=True, array_like=True):
    """The job cannot go on, and no other could: a setting, a size, a file, the disk or the method is to blame."""

    tag: ClassVar[int] = 118
    cause: Literal["setting", "size", "state", "disk", "method"]
    reason: str


COMMANDS: dict[int, type[Message]] = {
    kind.tag: kind for kind in (Begin, ConstantMade, Announce, Announced, Open, Perform, Performed, Failed)
}
"""Every message of a job's pipe by its tag."""


def opening(begin: Begin, constants: Sequence[Constant]) -> list[Frames]:
    """Return what comes first: the command and the run constants."""
    begin = msgspec.structs.replace(begin, num_constants=len(constants))
    made = (encode(ConstantMade(each.name, each.digest), each.packed, PIPE_BYTES) for each in constants)
    return [encode(begin), *made]


def read_constant(frames: Frames) -> Constant:
    """Return a run constant as it came."""
    made, packed = decode(frames, COMMANDS, PIPE_BYTES)
    assert isinstance(made, ConstantMade)
    assert packed is not None
    return Constant(made.name, made.digest, packed)


def read_announced(frames: Frames) -> clients.Announced:
    """Return what a client has."""
    message, _ = decode(frames, COMMANDS)
    assert isinstance(message, Announced)
    return clients.Announced(message.client, message.ready, message.notes, message.flops)


def read_performed(head: Buffer, frames: Frames) -> clients.Done:
    """Return what a client has done, whose update's frames came behind this head."""
    message, _ = decode([head], COMMANDS)
    assert isinstance(message, Performed)
    return clients.Done(message.client, [*frames], Timing(*message.timing), message.notes)
