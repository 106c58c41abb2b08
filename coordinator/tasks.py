"""The tasks of the open exchange, as they go out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coordinator.conductor import Conductor
from coordinator.config import TransportSection
from coordinator.metrics.ledger import Cost
from coordinator.rounds import Rounds
from models.methods.faults import made_by
from wire.encoding import Frames, encode
from wire.messages import Task


class Tasks:
    """Makes the tasks of one run."""

    def __init__(self, token: int, machine: Rounds, conductor: Conductor, transport: TransportSection) -> None:
        self._token = token
        self._machine = machine
        self._conductor = conductor
        self._transport = transport

    def made_for(self, clients: Iterable[str]) -> Iterator[tuple[str, Frames, Cost]]:
        """Yield each client with its task, which is the same for all that go on from the state of the same round."""
        made: dict[int, tuple[Frames, Cost]] = {}
        for client in clients:
            kept = self._machine.kept_of(client)
            if kept not in made:
                made[kept] = self._made(kept)
            yield (client, *made[kept])

    def cost(self, client: str) -> Cost:
        """Return what this client's task costs."""
        return self._made(self._machine.kept_of(client))[1]

    def _made(self, kept: int) -> tuple[Frames, Cost]:
        downlink = self._conductor.exchange.downlink
        task = Task(self._token, self._machine.round, self._machine.exchange, kept, self._machine.base)
        with made_by(f"downlink {self._conductor.declared().at(self._machine.round)}"):
            frames = encode(task, downlink, self._transport.max_message_bytes)
        return frames, Cost.of(downlink, frames, self._transport.is_encrypted)
