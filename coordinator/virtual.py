"""The clients of a simulation: the trainer's work without a trainer, on one net per architecture."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coordinator.server_half import Constant
from models.client_states import ClientStates
from models.data import ClientParts
from models.methods import find
from models.privacy import seed_secret
from models.spec import RunSpec
from wire.encoding import decode, encode, pack, unpack
from wire.messages import Evaluation, Ready, Task, Update
from wire.timing import Timing

if TYPE_CHECKING:
    import numpy as np

    from models.nets import NetShelf
    from models.participant import Participant
    from wire.tensors import Buffer


class VirtualClient:
    """One client of a simulation: takes a task's frames and returns its timing and its update's frames."""

    def __init__(
        self,
        spec: RunSpec,
        name: str,
        index: int,
        parts: ClientParts,
        constants: Mapping[str, Mapping[str, np.ndarray]],
        shelf: NetShelf,
        folder: Path | None,
    ) -> None:
        """Build the client; its states survive a kill in the folder, or are in memory if there is none."""
        from models.participant import Participant

        method = find(spec.method)
        model = msgspec.structs.replace(spec.model, name=spec.model.name_for(index))
        spec = msgspec.structs.replace(spec, model=model)
        data = parts.client(index)
        self.features: dict[str, np.ndarray] = {}
        self._states = ClientStates(folder, spec.run_id, len(method.exchanges), durable=False)
        self._participant: Participant = Participant(
            spec,
            method,
            name,
            data,
            constants,
            spec.training.device,
            spec.training.threads,
            shelf,
            seed_secret(spec.seed),
        )
        self.notes = self._participant.notes

    def ready(self, run: int) -> Ready:
        """Return what the client announces."""
        return Ready(run, **dataclasses.asdict(self._participant.announcement))

    def perform(self, frames: list[Buffer], max_message_bytes: int) -> tuple[Timing, list[Buffer]]:
        """Do one task, from the frames that would have come to the frames that would go out."""
        task, packed = decode(frames, max_bytes=max_message_bytes)
        assert isinstance(task, Task)
        assert packed is not None
        started = time.monotonic()
        self._participant.load(self._states.begin(task.round, task.exchange, task.kept))
        restored = time.monotonic()
        outcome = self._participant.perform(task.round, task.exchange, task.base, unpack(packed))
        performed = time.monotonic()
        self.notes, self.features = outcome.notes, outcome.features
        update = Update(task.run, task.round, task.exchange, [Evaluation(*tested) for tested in outcome.evaluations])
        made = encode(update, pack(outcome.uplink), max_message_bytes)
        encoded = time.monotonic()
        self._states.save(task.round, task.exchange, self._participant.arrays())
        checkpoint_s = restored - started + time.monotonic() - encoded
        return Timing.of_seconds(outcome.train_s, outcome.evaluate_s, checkpoint_s, encoded - performed), made


def constants_of(made: list[Constant]) -> dict[str, Mapping[str, np.ndarray]]:
    """Return the run constants as a client half takes them."""
    return {constant.name: unpack(constant.packed).arrays for constant in made}
