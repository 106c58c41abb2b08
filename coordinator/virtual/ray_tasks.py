"""What a Ray worker does for a client: a function of bytes and arrays, which Ray may call anywhere and again."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coordinator.virtual import commands
from coordinator.virtual.clients import Assignment, VirtualClients
from coordinator.virtual.hosts import constants_of
from models.data import ClientParts
from models.shared_data import of_parts
from wire.encoding import decode, encode
from wire.limits import PIPE_BYTES

if TYPE_CHECKING:
    Arrays = Mapping[str, np.ndarray]

Samples = tuple[bytes, np.ndarray, np.ndarray]
"""A data set in parts; see `models.shared_data`."""


class Performed(NamedTuple):
    """What one client has done: the head of `commands.Performed`, its update's frames, and its new state."""

    head: bytes
    frames: list[bytes]
    state: dict[str, np.ndarray]


class _HandedStates:
    """The state that one client's task was given, and the one that it leaves behind."""

    def __init__(self, state: Arrays | None) -> None:
        self._state = state
        self.left: Arrays = {}

    def begin(self, round: int, exchange: int, kept: int) -> Arrays | None:
        """Return what was given."""
        return self._state

    def save(self, round: int, exchange: int, arrays: Arrays) -> None:
        """Keep what is left behind."""
        self.left = arrays


class _Worker:
    """The clients of the run that this worker was last asked for."""

    def __init__(self, opening: Sequence[Sequence[bytes]], samples: Samples | None) -> None:
        begin, _ = decode(opening[0], commands.COMMANDS)
        assert isinstance(begin, commands.Begin)
        if begin.modules not in sys.path:
            sys.path.append(begin.modules)
        self.setup = begin.setup
        self.states: dict[str, _HandedStates] = {}
        parts = ClientParts(self.setup.spec, of_parts(*samples) if samples else None)
        constants = constants_of([commands.read_constant(frames) for frames in opening[1:]])
        self.clients = VirtualClients(self.setup, parts, constants, self.states.__getitem__)


_workers: dict[str, _Worker] = {}


def announce(opening: Sequence[Sequence[bytes]], samples: Samples | None, client: str) -> list[bytes]:
    """Return the frames of what a client announces."""
    worker = _worker(opening, samples)
    return _bytes(encode(commands.Announced(*worker.clients.announce(client))))


def perform(
    opening: Sequence[Sequence[bytes]],
    samples: Samples | None,
    opened: Sequence[bytes],
    kept: Mapping[str, int],
    states: Mapping[str, Arrays | None],
) -> list[Performed]:
    """Do an exchange for some clients, given their states."""
    worker = _worker(opening, samples)
    worker.states.clear()
    worker.states.update({client: _HandedStates(state) for client, state in states.items()})
    message, downlink = decode(opened, commands.COMMANDS, PIPE_BYTES)
    assert isinstance(message, commands.Open)
    assert downlink is not None
    assignment = Assignment(worker.setup.run, message.round, message.exchange, message.base, downlink)
    made = []
    for client, frames, timing, notes in worker.clients.perform(assignment, kept):
        (head,) = encode(commands.Performed(client, timing[:4], notes))
        made.append(Performed(bytes(head), _bytes(frames), dict(worker.states[client].left)))
    return made


def _worker(opening: Sequence[Sequence[bytes]], samples: Samples | None) -> _Worker:
    run = bytes(opening[0][0]).hex()
    if run not in _workers:
        _workers.clear()
        _workers[run] = _Worker(opening, samples)
    return _workers[run]


def _bytes(frames: Sequence[bytes | memoryview]) -> list[bytes]:
    return [bytes(frame) for frame in frames]
