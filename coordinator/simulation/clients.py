"""The clients of a simulation: the trainer's work without a trainer, on one net per architecture.

A process works for any of a run's clients, in any order: what outlives an exchange is in a client's states, on disk or,
if the run keeps nothing, in memory. Samples and client halves of those that were asked lately are held, up to a bound,
so that neither memory nor a GPU's grows with the number of clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from coordinator.loopback_clients import client_names
from coordinator.simulation.batching import Batching
from coordinator.simulation.held import HeldClients
from models.audit import keep_features
from models.client_states import ClientStates
from models.data import ClientParts
from models.methods import find
from models.methods.faults import asked, made_by
from models.spec import RunSpec
from wire.encoding import Packed, decode, encode, pack, unpack
from wire.messages import Evaluation, Ready, Task, Update
from wire.timing import Timing

if TYPE_CHECKING:
    import numpy as np

    from models.participant import Attempt, Participant
    from models.steps import Progress
    from wire.tensors import Buffer


class Setup(msgspec.Struct, frozen=True):
    """What is the same for all clients of a run, in whatever process.

    Attributes:
        spec: the run.
        run: the number that stands for it in messages.
        max_message_bytes: the largest message.
        folder: where the clients' own folders are.
        keeps_states: whether their states are kept there, so that another process can go on with them.
        cache_bytes: what may be held of clients that have no work now.
        counts_flops: whether `Announced.flops` is wanted.
        batched: whether clients train together where they can.
    """

    spec: RunSpec
    run: int
    max_message_bytes: int
    folder: Path
    keeps_states: bool
    cache_bytes: int
    counts_flops: bool = False
    batched: bool = False


class Assignment(msgspec.Struct, frozen=True):
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


class States(Protocol):
    """What a client holds across exchanges; see `models.client_states`."""

    lack: str

    def begin(self, round: int, exchange: int, kept: int) -> Mapping[str, np.ndarray] | None:
        """Return the state that an exchange begins from."""

    def save(self, round: int, exchange: int, arrays: Mapping[str, np.ndarray]) -> None:
        """Hold the state after an exchange."""


class StateShelf:
    """Where the states of a run's clients are: on disk, as they are there now, or in this process's memory."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._num_exchanges = len(find(setup.spec.method).exchanges)
        self._in_memory: dict[str, ClientStates] = {}

    def __call__(self, client: str) -> ClientStates:
        """Return a client's states."""
        if self._setup.keeps_states:
            return self._open(self._setup.folder / client)
        return self._in_memory.setdefault(client, self._open(None))

    def _open(self, folder: Path | None) -> ClientStates:
        return ClientStates(folder, self._setup.spec.run_id, self._num_exchanges, durable=False)


class _Work(NamedTuple):
    """A client that has taken up its task."""

    client: str
    participant: Participant
    states: States
    task: Task
    attempt: Attempt
    restore_s: float


class VirtualClients:
    """Works for the clients of a run in this process."""

    def __init__(
        self,
        setup: Setup,
        parts: ClientParts,
        constants: Mapping[str, Mapping[str, np.ndarray]],
        states: Callable[[str], States] | None = None,
    ) -> None:
        """Take samples and constants, and where a client's states are, by default as the setup says."""
        names = client_names(setup.spec.data.num_clients)
        self._setup = setup
        self._held = HeldClients(setup.spec, names, parts, constants, setup.cache_bytes)
        self._states_of = states or StateShelf(setup)
        self._batching = Batching(
            {name: setup.spec.model.name_for(index) for index, name in enumerate(names)},
            {name: len(split.train) for name, split in zip(names, parts.splits, strict=True)},
        )

    def announce(self, client: str) -> Announced:
        """Build a client and return what it announces."""
        with made_by(f"client {client}"):
            participant, notes = self._held.build(client)
        self._held.hold(client, participant)
        ready = Ready(self._setup.run, **msgspec.structs.asdict(participant.announcement))
        return Announced(client, ready, notes, participant.count_flops() if self._setup.counts_flops else 0)

    def perform(
        self, assignment: Assignment, kept: Mapping[str, int], on_progress: Progress | None = None
    ) -> Iterator[Done]:
        """Do one exchange for each of these clients, together if that is wanted and can be; `kept` is by client.

        What `on_progress` raises ends it, and the client whose training that was holds the state it had before.
        """
        tasks = {client: assignment.frames(round, self._setup.max_message_bytes) for client, round in kept.items()}
        if self._setup.batched:
            for group in self._batching.groups(list(tasks), assignment.exchange, self._held.show):
                together = {client: tasks.pop(client) for client in group}
                yield from self._perform_together(together, assignment.exchange, on_progress)
        for client, frames in tasks.items():
            yield self._perform(client, frames, on_progress)

    def _perform(self, client: str, frames: list[Buffer], on_progress: Progress | None) -> Done:
        with made_by(f"client {client}"):
            work = self._begin(client, frames)
            work.participant.train(work.attempt, on_progress)
            return self._finish(work)

    def _perform_together(
        self, tasks: Mapping[str, list[Buffer]], exchange: int, on_progress: Progress | None
    ) -> Iterator[Done]:
        """Do one exchange for clients that train together, or one by one if it turns out that they cannot."""
        from models.batched import Together

        together, works = Together(self._setup.spec.training), []
        for client, frames in tasks.items():
            with made_by(f"client {client}"):
                works.append(self._begin(client, frames))
                works[-1].participant.join(together, works[-1].attempt)
        started = time.perf_counter()
        try:
            with asked(
                f"clients {', '.join(tasks)}: training {works[0].attempt.declared.at(works[0].task.round)}",
                RuntimeError,
            ):
                trained = together.train(on_progress)
        except RuntimeError as error:  # what torch raises where it cannot compute many at once
            self._batching.give_up(list(tasks), exchange, error)
            yield from (self._perform(client, frames, on_progress) for client, frames in tasks.items())
            return
        train_s = (time.perf_counter() - started) / len(works)
        for work, made in zip(works, trained, strict=True):
            with made_by(f"client {work.client}"):
                work.participant.leave(work.attempt, made, train_s)
                done = self._finish(work)
            yield done

    def _begin(self, client: str, frames: list[Buffer]) -> _Work:
        """Let a client take up its task, as it comes in these frames."""
        task, packed = decode(frames, max_bytes=self._setup.max_message_bytes)
        assert isinstance(task, Task)
        assert packed is not None
        participant, states = self._held.take(client), self._states_of(client)
        started = time.monotonic()
        participant.load(states.begin(task.round, task.exchange, task.kept), task.round, task.exchange)
        restore_s = time.monotonic() - started
        attempt = participant.take_up(task.round, task.exchange, task.base, unpack(packed))
        if participant.has_state and states.lack:
            attempt.notes.append(states.lack)
        return _Work(client, participant, states, task, attempt, restore_s)

    def _finish(self, work: _Work) -> Done:
        """Let a client that has trained hand over its update, and keep its state."""
        client, participant, states, task, attempt, restore_s = work
        outcome = participant.hand_over(attempt)
        performed = time.monotonic()
        update = Update(task.run, task.round, task.exchange, [Evaluation(*tested) for tested in outcome.evaluations])
        with made_by(f"uplink {attempt.declared.at(task.round)}"):
            packed = pack(outcome.uplink)
            made = encode(update, packed, self._setup.max_message_bytes)
        encoded = time.monotonic()
        states.save(task.round, task.exchange, participant.arrays())
        if outcome.features:
            folder = self._setup.folder / client
            folder.mkdir(parents=True, exist_ok=True)
            keep_features(folder, task.round, outcome.features)
        checkpoint_s = restore_s + time.monotonic() - encoded
        timing = Timing.of_seconds(outcome.train_s, outcome.evaluate_s, checkpoint_s, encoded - performed)
        self._held.hold(client, participant)
        return Done(client, made, timing, [*outcome.notes, *self._batching.take_notes()])
