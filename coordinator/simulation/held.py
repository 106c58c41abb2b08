"""A run's clients, of which those that were asked lately are held in memory and on the device, up to a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from models.data import ClientParts
from models.methods import find
from models.privacy import seed_secret
from models.spec import RunSpec

if TYPE_CHECKING:
    from models.participant import Participant


class HeldClients:
    """Builds clients when they are needed; the state of one that comes back is for `Participant.load` to give it."""

    def __init__(
        self,
        spec: RunSpec,
        clients: Sequence[str],
        parts: ClientParts,
        constants: Mapping[str, Mapping[str, np.ndarray]],
        most_bytes: int,
    ) -> None:
        from models.nets import NetShelf

        self._spec = spec
        self._method = find(spec.method)
        self._indices = {client: index for index, client in enumerate(clients)}
        self._parts = parts
        self._constants = constants
        self._most_bytes = most_bytes
        self._shelf = NetShelf()
        self._held: dict[str, Participant] = {}
        self._num_bytes = 0

    def build(self, client: str) -> tuple[Participant, list[str]]:
        """Return a client in its initial state, and notes on its samples."""
        from models.participant import Participant

        spec, index = self._spec, self._indices[client]
        model = msgspec.structs.replace(spec.model, name=spec.model.name_for(index))
        spec = msgspec.structs.replace(spec, model=model)
        data, secret = self._parts.client(index), seed_secret(spec.seed)
        participant = Participant(spec, self._method, client, data, self._constants, self._shelf, secret)
        return participant, participant.notes

    def take(self, client: str) -> Participant:
        """Return a client, held or built anew; it is no longer held."""
        participant = self._held.pop(client, None)
        if participant is None:
            return self.build(client)[0]
        self._num_bytes -= participant.num_bytes
        return participant

    def hold(self, client: str, participant: Participant) -> None:
        """Hold a client, in place of those that were held longest."""
        self._held[client] = participant
        self._num_bytes += participant.num_bytes
        while self._num_bytes > self._most_bytes and len(self._held) > 1:
            self.take(next(iter(self._held)))

    def show(self, client: str) -> Participant:
        """Return a client that is held on."""
        participant = self.take(client)
        self.hold(client, participant)
        return participant
