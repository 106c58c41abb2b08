"""The clients of a simulation: the trainer's work without a trainer, on one net per architecture.

A process works for any of a run's clients, in any order: what outlives an exchange is in a client's states, on disk or,
if the run keeps nothing, in memory. Samples and client halves of those that were asked lately are held, up to a bound,
so that neither memory nor a GPU's grows with the number of clients.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coordinator.loopback_clients import client_names
from models.audit import keep_features
from models.client_states import ClientStates
from models.data import ClientParts
from models.methods import find
from models.spec import RunSpec
from wire.encoding import Packed, decode, encode, pack, unpack
from wire.messages import Evaluation, Ready, Task, Update
from wire.timing import Timing

if TYPE_CHECKING:
    import numpy as np

    from models.participant import Participant
    from wire.tensors import Buffer


@dataclasses.dataclass(frozen=True)
class Setup:
    """What is the same for all clients of a run, in whatever process.

    Attributes:
        spec: the run.
        run: the number that stands for it in messages.
        max_message_bytes: the largest message.
        folder: where the clients' own folders are.
        keeps_states: whether their states are kept there, so that another process can go on with them.
        cache_bytes: what may be held of clients that have no work now.
        counts_flops: whether `Announced.flops` is wanted.
    """

    spec: RunSpec
    run: int
    max_message_bytes: int
    folder: Path
    keeps_states: bool
    cache_bytes: int
    counts_flops: bool = False


@dataclasses.dataclass(frozen=True)
class Assignment:
    """What all clients are asked in an exchange."""

    run: int
    round: int
    exchange: int
    base: int
    downlink: Packed

    def frames(self, kept: int, max_message_bytes: int) -> list[Buffer]:
        """Return the task of a client whose last outcome that stands is of round `kept`, as it would travel."""
        task = Task(self.run, self.round, self.exchange, kept, self.base)
        return encode(task, self.downlink, max_message_bytes)


class Announced(NamedTuple):
    """What a client says of itself at first; `flops` are what a sample's way through its net takes."""

    client: str
    ready: Ready
    notes: list[str]
    flops: int = 0


class Done(NamedTuple):
    """What a client has done: its update's frames as they would travel, and how long it took."""

    client: str
    frames: list[Buffer]
    timing: Timing
    notes: list[str]


class VirtualClients:
    """Works for the clients of a run in this process."""

    def __init__(self, setup: Setup, parts: ClientParts, constants: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        from models.participant import NetShelf

        self._setup = setup
        self._method = find(setup.spec.method)
        self._parts = parts
        self._constants = constants
        self._shelf = NetShelf()
        self._indices = {name: index for index, name in enumerate(client_names(setup.spec.data.num_clients))}
        self._held: dict[str, Participant] = {}
        self._held_bytes = 0
        self._states: dict[str, ClientStates] = {}

    def announce(self, client: str) -> Announced:
        """Build a client and return what it announces."""
        participant, notes = self._build(client)
        self._hold(client, participant)
        ready = Ready(self._setup.run, **dataclasses.asdict(participant.announcement))
        return Announced(client, ready, notes, participant.count_flops() if self._setup.counts_flops else 0)

    def perform(self, assignment: Assignment, kept: Mapping[str, int]) -> Iterator[Done]:
        """Do one exchange for each of these clients, one after the other; `kept` is by client."""
        for client, round in kept.items():
            yield self._perform(client, assignment.frames(round, self._setup.max_message_bytes))

    def _perform(self, client: str, frames: list[Buffer]) -> Done:
        task, packed = decode(frames, max_bytes=self._setup.max_message_bytes)
        assert isinstance(task, Task)
        assert packed is not None
        participant, states = self._take(client), self._states_of(client)
        started = time.monotonic()
        participant.load(states.begin(task.round, task.exchange, task.kept))
        restored = time.monotonic()
        outcome = participant.perform(task.round, task.exchange, task.base, unpack(packed))
        performed = time.monotonic()
        update = Update(task.run, task.round, task.exchange, [Evaluation(*tested) for tested in outcome.evaluations])
        made = encode(update, pack(outcome.uplink), self._setup.max_message_bytes)
        encoded = time.monotonic()
        states.save(task.round, task.exchange, participant.arrays())
        if outcome.features:
            keep_features(self._setup.folder / client, task.round, outcome.features)
        checkpoint_s = restored - started + time.monotonic() - encoded
        timing = Timing.of_seconds(outcome.train_s, outcome.evaluate_s, checkpoint_s, encoded - performed)
        self._hold(client, participant)
        return Done(client, made, timing, outcome.notes)

    def _take(self, client: str) -> Participant:
        """Return a client, held or built anew."""
        participant = self._held.pop(client, None)
        if participant is None:
            return self._build(client)[0]
        self._held_bytes -= participant.num_bytes
        return participant

    def _hold(self, client: str, participant: Participant) -> None:
        """Hold a client in place of those that were asked longest ago."""
        self._held[client] = participant
        self._held_bytes += participant.num_bytes
        while self._held_bytes > self._setup.cache_bytes and len(self._held) > 1:
            self._take(next(iter(self._held)))

    def _build(self, client: str) -> tuple[Participant, list[str]]:
        """Return a client in its initial state, and notes on its samples."""
        from models.participant import Participant

        spec, index = self._setup.spec, self._indices[client]
        model = msgspec.structs.replace(spec.model, name=spec.model.name_for(index))
        spec = msgspec.structs.replace(spec, model=model)
        data, training = self._parts.client(index), spec.training
        where = (training.device, training.threads, self._shelf)
        return Participant(spec, self._method, client, data, self._constants, *where), data.notes

    def _states_of(self, client: str) -> ClientStates:
        """Return a client's states: those on disk as they are now, because another process may have changed them."""
        folder = self._setup.folder / client if self._setup.keeps_states else None
        if folder is None and client in self._states:
            return self._states[client]
        states = ClientStates(folder, self._setup.spec.run_id, len(self._method.exchanges), durable=False)
        if folder is None:
            self._states[client] = states
        return states
